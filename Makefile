# Thin: each target is a script or a line. `make demo` and `make test` do their own set-up.
BUILD ?= build
PREFIX ?= /usr/local

.PHONY: all wasm pyodide demo test test-sanitized test-warm test-vm bench soak fuzz format clean install deb

all:
	@setup/install build
	@setup/install-wasm library || echo "setup: without Wasmtime: the engine wasm will report itself missing" >&2
	@[ -f $(BUILD)/build.ninja ] || echo "setup: building (a minute or two)"
	@[ -f $(BUILD)/build.ninja ] || setup/configure $(BUILD) --prefix=$(PREFIX) -Dwerror=true
	@grep -q cloche-wasm $(BUILD)/build.ninja || [ ! -e /usr/local/lib/cloche/wasm/libwasmtime.so ] || setup/configure --reconfigure $(BUILD)
	@ninja -C $(BUILD) --quiet

pyodide:
	@setup/install-pyodide $(BUILD)/pyodide

demo:
	@setup/install build demo
	@$(MAKE) --no-print-directory all
	@demo/run $(BUILD)/cloche

test:
	@setup/install build test
	@setup/install-runsc
	@$(MAKE) --no-print-directory all
	@setup/install-python $(BUILD) test
	@setup/install-restricted
	@setup/install-node $(BUILD)/node
	@setup/install-wasm languages $(BUILD)
	@setup/install-pyodide $(BUILD)/pyodide
	@tests/run $(BUILD)

test-sanitized:
	@setup/install build test
	@$(MAKE) --no-print-directory all
	@setup/install-python $(BUILD) test
	@setup/install-restricted
	@tests/run --only sanitized-all $(BUILD)

test-warm:
	@setup/install build test
	@$(MAKE) --no-print-directory all
	@tests/run --only abuse-warm-all $(BUILD)

test-vm:
	@setup/install build test
	@$(MAKE) --no-print-directory all
	@CLOCHE_VM_EVERY=1 tests/run --only vm $(BUILD)

# Languages for the engine wasm (setup/wasm/languages), compiled ahead for this machine.
wasm:
	@setup/install build wasm
	@$(MAKE) --no-print-directory all
	@setup/install-wasm languages $(BUILD)

bench:
	@setup/install build demo bench wasm
	@setup/install-runsc
	@$(MAKE) --no-print-directory all
	@setup/install-wasm languages $(BUILD)
	@setup/install-python $(BUILD) bench
	@failed=0; for name in cold_start warm_start server wasm vet gvisor_start upload; do bench/$$name || failed=1; done; exit $$failed

soak:
	@setup/install build test
	@$(MAKE) --no-print-directory all
	@tests/soak/run --minutes $(or $(MINUTES),10) --runs $(or $(RUNS),50000)

fuzz:
	@setup/install build test
	@tests/fuzz/run $(or $(SECONDS_EACH),60)

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

install: all
	@meson install -C $(BUILD) --no-rebuild --quiet
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || /sbin/ldconfig
	@[ -n "$(DESTDIR)" ] || setup/load-apparmor $(PREFIX)

deb: all
	@setup/make-deb $(BUILD)

clean:
	@rm -rf $(BUILD) build-*
