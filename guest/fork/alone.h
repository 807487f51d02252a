/* Is there nothing that a copy of this process could not have: other threads, children but the known ones,
 * memory that both would share? 0: there is, or that cannot be found out this way. */
#pragma once

__attribute__((visibility("default"))) int cloche_is_alone(long known_children);

/* How many are open; a negative errno. */
__attribute__((visibility("default"))) long cloche_count_descriptors(void);

/* Is there a timer that is running, or that could be one? */
__attribute__((visibility("default"))) int cloche_has_timers(void);
