/* The program of init, as bytes of the library. INIT_BLOB is its path, given by the build. */
#include INIT_STAMP /* rebuilds this file when init changes */
    .section .rodata
    .global init_blob_start
    .hidden init_blob_start
    .global init_blob_end
    .hidden init_blob_end
    .balign 16
init_blob_start:
    .incbin INIT_BLOB
init_blob_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
