/* The paths in a container at which the agent mounts the files of its slice; paths.py has the same paths. */
#ifndef VGPU_PATHS_H
#define VGPU_PATHS_H

#define VGPU_CONFIG_PATH "/etc/vgpu/vgpu.conf"
#define VGPU_REGION_PATH "/var/run/vgpu/usage"

#endif
