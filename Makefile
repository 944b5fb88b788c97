# A thin front of the CMake build: the words people type.
#   make            build/koine and build/libkoine.a        make demo       train on digits and show how
#   make check      every test that can run here            make bench      measure
#   make check-full the long ones too                       make install    PREFIX=/usr/local
#   make deps       what the tests use beside a compiler    make format     clang-format     make clean
PREFIX ?= /usr/local
JOBS   ?= 2
MAKEFLAGS += --no-print-directory
BUILD  := build

.PHONY: all configure check check-full demo bench install deps format clean
all: configure
	@cmake --build $(BUILD) -j $(JOBS)

configure:
	@test -f $(BUILD)/Makefile -o -f $(BUILD)/build.ninja || cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release

demo: all
	$(BUILD)/koine demo digits

check: all
	@sh cmake/left-out.sh $(BUILD)
	@cd $(BUILD) && ctest -j $(JOBS) --output-on-failure -LE full

check-full: all
	@sh cmake/left-out.sh $(BUILD)
	@cd $(BUILD) && ctest -j $(JOBS) --output-on-failure

bench: all
	@cmake --build $(BUILD) --target bench

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

deps:
	@sh cmake/deps.sh

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf $(BUILD) build-*
