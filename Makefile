# hasp: build, test, install. `make help` lists the targets.
#
# Objects of each flavour live in build/<flavour>/, so switching costs nothing:
#   release  what users get          check  warnings are errors, slow checks on
#   asan     ASan + UBSan            tsan   ThreadSanitizer
#   coverage gcov                    fuzz   clang's libFuzzer with ASan + UBSan
# CFLAGS and LDFLAGS belong to whoever builds; ours are in HASP_*.

.DELETE_ON_ERROR:
.SUFFIXES:

VERSION := 0.1.0
FLAVOUR ?= release
PREFIX ?= /usr/local
DESTDIR ?=
B := build/$(FLAVOUR)

CFLAGS ?= -O2 -g
PKGS := raft libuv lmdb libprotobuf-c inih libsmartcols jansson libsystemd
ifeq ($(filter help clean deps install-deps demo test,$(MAKECMDGOALS)),)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
endif

HASP_CFLAGS := -std=c11 -D_GNU_SOURCE -iquote . -iquote build/gen \
    -DHASP_VERSION='"$(VERSION)"' -fno-strict-aliasing -fvisibility=hidden \
    -fPIC -fstack-protector-strong -MMD -MP -pthread \
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
    -Wpointer-arith -Wvla -Wformat=2 -Wundef
HASP_LDFLAGS := -pthread -Wl,-z,relro,-z,now
LIBS := -lraft -luv -llmdb -lprotobuf-c -lxxhash

ifneq ($(filter check asan tsan coverage fuzz,$(FLAVOUR)),)
HASP_CFLAGS += -DHASP_CHECK_SLOW -Werror
endif
ifeq ($(DEVELOPER),1)
HASP_CFLAGS += -Werror
endif
ifeq ($(FLAVOUR),asan)
CFLAGS := -O1 -g
HASP_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all \
    -fno-omit-frame-pointer
HASP_LDFLAGS += -fsanitize=address,undefined
endif
ifeq ($(FLAVOUR),tsan)
CFLAGS := -O1 -g
HASP_CFLAGS += -fsanitize=thread
HASP_LDFLAGS += -fsanitize=thread
endif
ifeq ($(FLAVOUR),coverage)
CFLAGS := -O0 -g
HASP_CFLAGS += --coverage
HASP_LDFLAGS += --coverage
endif
ifeq ($(FLAVOUR),fuzz)
CC := clang
CFLAGS := -O1 -g
HASP_CFLAGS += -fsanitize=fuzzer-no-link,address,undefined \
    -fno-sanitize-recover=all
HASP_LDFLAGS += -fsanitize=address,undefined
endif

PROTOS := $(wildcard lockfsm/*.proto)
GEN_C := $(PROTOS:%.proto=build/gen/%.pb-c.c)
GEN_O := $(PROTOS:%.proto=$(B)/gen/%.pb-c.o)

FOLDERS := base lockfsm storage raft net client node/core node
SRC := $(foreach f,$(FOLDERS),$(wildcard $(f)/*.c))
OBJ := $(SRC:%.c=$(B)/%.o) $(GEN_O)
LIB := $(B)/libhasp-all.a

HASPD_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard cmd/haspd/*.c))
HASP_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard cmd/hasp/*.c))
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/sim/*.c))
BENCH_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/*.c))

.PHONY: all
all: $(B)/haspd $(B)/hasp ## the daemon and the tool (default)

# --- compiling ---------------------------------------------------------------

build/gen/%.pb-c.c build/gen/%.pb-c.h: %.proto
	@mkdir -p build/gen
	protoc-c --c_out=build/gen $<

# Whatever includes a generated header needs it to exist first.
$(OBJ) $(HASPD_OBJ) $(HASP_OBJ) $(SIM_OBJ) $(BENCH_OBJ): | $(GEN_C)

$(B)/gen/%.o: build/gen/%.c
	@mkdir -p $(@D)
	$(CC) $(HASP_CFLAGS) $(CFLAGS) -Wno-error -c -o $@ $<

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HASP_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -c -o $@ $<

$(LIB): $(OBJ)
	rm -f $@
	ar rcs $@ $^

$(B)/haspd: $(HASPD_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) \
	    -linih -lsystemd

$(B)/hasp: $(HASP_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) \
	    -lsmartcols -ljansson

$(B)/unit/%: $(B)/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(HASP_LDFLAGS) -fsanitize=fuzzer $(CFLAGS) $(LDFLAGS) -o $@ $^ \
	    $(LIBS)

$(B)/sim: $(SIM_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/bench: $(BENCH_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

-include $(shell find $(B) -name '*.d' 2>/dev/null)

.PRECIOUS: $(B)/%.o $(B)/tests/unit/%.o $(B)/tests/fuzz/%.o build/gen/%.pb-c.c

.PHONY: unit
unit: $(UNIT) ## unit tests (T=part of a name)
	@tools/run-unit.sh $(filter %$(T),$(UNIT))$(if $(T), $(foreach u,$(UNIT),$(if $(findstring $(T),$(u)),$(u))))

.PHONY: clean
clean: ## remove build/
	rm -rf build

.PHONY: deps
deps: ## install what is missing (apt, as root or with sudo)
	@tools/deps.sh

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' Makefile
