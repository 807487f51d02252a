/* Is there nothing that a copy of this process could not have: other threads, children but the known ones,
 * memory that both would share? 0: there is, or that cannot be found out this way. */
#pragma once

__attribute__((visibility("default"))) int cloche_is_alone(long known_children);
