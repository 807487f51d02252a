/* The built-in language table (languages.json), as bytes. */
#include "languages_stamp.h" /* rebuilds this file when the table changes */
    .section .rodata
    .global languages_blob_start
    .hidden languages_blob_start
    .global languages_blob_end
    .hidden languages_blob_end
    .balign 16
languages_blob_start:
    .incbin LANGUAGES_BLOB
languages_blob_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
