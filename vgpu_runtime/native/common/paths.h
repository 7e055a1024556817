/* Returns the paths of the two files that the library opens: vgpu.conf and the usage region (the counters). */
#ifndef VGPU_PATHS_CHOSEN_H
#define VGPU_PATHS_CHOSEN_H

const char *config_path(void);
const char *region_path(void);

#endif
