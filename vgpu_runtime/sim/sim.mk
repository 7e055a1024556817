# The simulated driver and the programs that look at cards as a container's program does. Included by ../Makefile.
SIM_FLAGS := -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Wshadow -Werror -fPIC -fvisibility=hidden
SIM_SOURCES := $(wildcard sim/driver/*.c)
SIM_HEADERS := $(wildcard sim/driver/*.h) include/vgpu_kfd.h

TARGETS += $(BUILD)/libsimkfd.so

$(BUILD)/libsimkfd.so: $(SIM_SOURCES) $(SIM_HEADERS) sim/sim.mk | $(BUILD)
	@echo "CC $(@F)"
	@$(CC) $(CFLAGS) $(SIM_FLAGS) -shared -o $@.new $(SIM_SOURCES) -Wl,-z,defs -ldl -lpthread
	@mv $@.new $@
