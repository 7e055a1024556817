/* Where the agent puts a slice's files inside the container (paths.py has the same). */
#ifndef VGPU_PATHS_H
#define VGPU_PATHS_H

#define VGPU_CONFIG_PATH "/etc/vgpu/vgpu.conf"
#define VGPU_REGION_PATH "/var/run/vgpu/usage"

#endif
