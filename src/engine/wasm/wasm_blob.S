/* The program with Wasmtime in it, as bytes of the library. WASM_BLOB is its path, given by the build where it is made. */
#include WASM_STAMP /* rebuilds this file when it changes */
    .section .rodata
    .global wasm_blob_start
    .hidden wasm_blob_start
    .global wasm_blob_end
    .hidden wasm_blob_end
    .balign 16
wasm_blob_start:
#ifdef WASM_BLOB
    .incbin WASM_BLOB
#endif
wasm_blob_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
