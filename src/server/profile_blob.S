/* The tool that looks at uploaded data, as bytes of the server. PROFILE_BLOB is its path, given by the build. */
#include "profile_stamp.h" /* rebuilds this file when the tool changes */
    .section .rodata
    .global profile_blob_start
    .hidden profile_blob_start
    .global profile_blob_end
    .hidden profile_blob_end
    .balign 16
profile_blob_start:
    .incbin PROFILE_BLOB
profile_blob_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
