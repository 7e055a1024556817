# The simulated driver and the programs that look at cards as a container's program does. Included by ../Makefile.
SIM_FLAGS := -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Wshadow -Werror -fPIC -fvisibility=hidden -Iinclude -Inative/common
SIM_SOURCES := $(sort $(wildcard sim/driver/*.c)) native/common/user_memory.c
SIM_HEADERS := $(wildcard sim/driver/*.h) include/vgpu_kfd.h include/vgpu_drm.h include/vgpu_raw_call.h \
	native/common/user_memory.h
PROBE := sim/probe/command.c
PROBE_HIP := $(PROBE) sim/probe/hip.c sim/probe/hsa.c
PROBE_KFD := $(PROBE) sim/probe/kfd.c sim/probe/save_area.c
comma := ,
PROBE_HEADERS := $(wildcard sim/probe/*.h) $(SIM_HEADERS)

TARGETS += $(BUILD)/libsimkfd.so $(BUILD)/libvgpu-sim.so $(BUILD)/vgpu-probe $(BUILD)/vgpu-kfd-probe

$(BUILD)/libsimkfd.so: $(SIM_SOURCES) $(SIM_HEADERS) sim/sim.mk | $(BUILD)
	@echo "CC $(@F)"
	@$(CC) $(CFLAGS) $(SIM_FLAGS) -shared -o $@.new $(SIM_SOURCES) -Wl,-z,defs -ldl -lpthread
	@mv $@.new $@

# The test build that brings the driver with it: in a namespace of dlmopen there are no preloaded libraries.
$(BUILD)/libvgpu-sim.so: $(SOURCES) $(HEADERS) native/vgpu.map $(BUILD)/libsimkfd.so Makefile sim/sim.mk | $(BUILD)
	$(call library,-DVGPU_TEST_BUILD,-L$(BUILD) -lsimkfd -Wl$(comma)-rpath$(comma)'$$ORIGIN')

$(BUILD)/vgpu-probe: $(PROBE_HIP) $(PROBE_HEADERS) sim/sim.mk | $(BUILD)
	@echo "CC $(@F)"
	@$(CC) $(CFLAGS) $(SIM_FLAGS) -o $@.new $(PROBE_HIP) -ldl
	@mv $@.new $@

$(BUILD)/vgpu-kfd-probe: $(PROBE_KFD) $(PROBE_HEADERS) sim/sim.mk | $(BUILD)
	@echo "CC $(@F)"
	@$(CC) $(CFLAGS) $(SIM_FLAGS) -o $@.new $(PROBE_KFD)
	@mv $@.new $@
