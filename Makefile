# runner: build, test and train. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
# Use Go's compilers unless the environment sets others. Make has its own defaults for both variables.
ifeq ($(origin CC),default)
CC      := $(or $(shell $(GO) env CC 2>/dev/null),gcc)
endif
ifeq ($(origin CXX),default)
CXX     := $(or $(shell $(GO) env CXX 2>/dev/null),g++)
endif
TOOLS   := $(CURDIR)/.cache/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)

# Who publishes packages, and the address of the git repository. Both are placeholders: whoever publishes sets them.
MAINTAINER ?= runner <runner@localhost>
SOURCE_URL ?= file:///usr/local/src/runner

# The default build is for this machine's processor only. PORTABLE=1 builds for all with AVX2 (x86-64-v3): the runner's
# own kernels are chosen at run time, and the engine's are compiled for AVX2. The program says so on an older processor.
# On other architectures it is for every processor. Its files name no folder of this machine.
ifneq ($(filter dist dist-check,$(MAKECMDGOALS)),)
  PORTABLE := 1
endif
ifeq ($(PORTABLE),1)
  ARCH_FLAGS := $(if $(filter x86_64 amd64,$(shell uname -m)),-march=x86-64-v3)
  BUILD_FLAGS := -trimpath
else ifeq ($(shell uname -s)-$(shell uname -m),Darwin-arm64)
  ARCH_FLAGS := -mcpu=native
else
  ARCH_FLAGS := -march=native
  # On processors with AMX the engine would call code that its Go module does not compile.
  ifeq ($(shell $(CC) -mno-amx-int8 -x c -c /dev/null -o /dev/null 2>/dev/null && echo yes),yes)
    ARCH_FLAGS += -mno-amx-int8 -mno-amx-tile -mno-amx-bf16
  endif
endif
export CGO_ENABLED := 1
ifeq ($(PORTABLE),1)
export CGO_CFLAGS   := -O3 -w $(ARCH_FLAGS)
export CGO_CXXFLAGS := -O3 -w $(ARCH_FLAGS)
else
export CGO_CFLAGS   ?= -O3 -w $(ARCH_FLAGS)
export CGO_CXXFLAGS ?= -O3 -w $(ARCH_FLAGS)
endif

# The packages that link the C++ engine (engine) and those that do not (pure), tests included.
engine_pkgs = $(shell $(GO) list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | \
  grep 'github.com/ollama/ollama' | sed 's/[ ].*//; s/\.test$$//; s/_test$$//' | sort -u)
pure_pkgs   = $(filter-out $(engine_pkgs),$(shell $(GO) list ./...))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14
	@echo
	@echo 'docs/architecture.md is the map of the source.'

.PHONY: toolchain
toolchain:
	@command -v $(GO) >/dev/null || \
	  { echo "runner: Go 1.26 or newer is required, but '$(GO)' is not on the PATH" >&2; exit 1; }
	@for c in $(firstword $(CC)) $(firstword $(CXX)); do command -v $$c >/dev/null || \
	  { echo "runner: C and C++ compilers are required, but '$$c' is not on the PATH;" \
	    "install gcc and g++, or set CC and CXX" >&2; exit 1; }; done

.PHONY: build
build: toolchain ## build bin/runner
	@echo "building bin/runner; the first build also compiles the C++ engine, which takes two to four minutes on two cores"
	@$(GO) build -v $(BUILD_FLAGS) -ldflags "-X main.version=$(VERSION) -X main.commit=$(COMMIT)" -o bin/runner ./cmd/runner 2>&1 | \
	  { grep --line-buffered -vE '^(internal/|vendor/|[a-z0-9]+(/[a-z0-9.]+)*$$)' | \
	    sed -u -E 's|^github.com/ollama/ollama/(.*)$$|  compiling the engine: \1|' ; true; }
	@echo "built bin/runner"

.PHONY: dist
dist: toolchain ## make a release for this kind of machine, in dist: a folder, .tar.gz, .deb, checksums, SBOM
	@CXX="$(CXX)" BUILD_FLAGS="$(BUILD_FLAGS)" VERSION="$(VERSION)" COMMIT="$(COMMIT)" \
	  MAINTAINER="$(MAINTAINER)" SOURCE_URL="$(SOURCE_URL)" scripts/dist.sh

.PHONY: dist-check
dist-check: toolchain ## make the release of the last commit twice, compare the bytes, install it and ask it
	@scripts/dist_check.sh

.PHONY: package-check
package-check: build ## package bin/runner for Debian, install that into an empty folder, ask its service, remove it
	@VERSION="$(VERSION)" scripts/dist_check.sh program bin/runner

# Built from the same module version as the engine; no other version works. The engine looks for it at run time.
.PHONY: cuda
cuda: toolchain ## build the engine's CUDA library, lib/runner (CUDA_ARCH=86 names a GPU that is not here)
	@for c in nvcc cmake; do command -v $$c >/dev/null || \
	  { echo "runner: the CUDA library requires NVIDIA's CUDA toolkit and CMake, but '$$c' is not on the PATH" >&2; \
	    exit 1; }; done
	@$(GO) mod download github.com/ollama/ollama
	@echo "building lib/runner/libggml-cuda.so; this takes about half an hour on one core"
	@cmake -S "$$($(GO) list -m -f '{{.Dir}}' github.com/ollama/ollama)" -B .cache/cuda \
	  -DCMAKE_BUILD_RPATH="\$$ORIGIN;$$(dirname "$$(command -v nvcc)")/../lib64" \
	  $(if $(CUDA_ARCH),-DCMAKE_CUDA_ARCHITECTURES="$(CUDA_ARCH)")
	@cmake --build .cache/cuda --target ggml-cuda --parallel "$$(getconf _NPROCESSORS_ONLN)"
	@mkdir -p lib/runner
	@cp -L .cache/cuda/lib/ollama/libggml-cuda.so .cache/cuda/lib/ollama/libggml-base.so.0 lib/runner/
	@echo "built lib/runner; bin/runner doctor shows the GPU"

.PHONY: run
run: build ## build, then ask the bundled model two questions: one with its reasoning, one with a summary
	@echo
	bin/runner run --temperature 0 --reasoning full "What is 17 + 25?"
	@echo
	bin/runner run --temperature 0 --reasoning summary "What is 532 - 187?"

# Many tests of the packages without the engine wait for processes and disks, so more packages run at a time than there
# are processors.
# Some packages take minutes with the race detector: one starts the program a thousand times, the others compute long
# tables or send one request after the other. make test runs them without it, and make test-long with it. Those in twice
# are tested both ways.
unraced = runner/backend/tokenizer runner/bench runner/chattemplate runner/chattemplate/channels \
  runner/chattemplate/channels/harmony runner/chattemplate/families runner/chattemplate/jinja runner/cmd/runner/cli \
  runner/grammar/jsonschema runner/reasoning/filter runner/reasoning/trace runner/server/internal/contract \
  runner/server/openai runner/server/openapi runner/server/web/markdown
twice = runner/grammar runner/reasoning/trace/store runner/runner runner/server/mew/space runner/server/openai/responses
at_a_time = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: test
test: toolchain ## vet, import rules, all tests, short fuzzing, end-to-end tests on the bundled model
	@[ -d ../shared/conformance ] || \
	  echo "note: without ../shared/conformance the tests against public reference data are skipped"
	@command -v curl >/dev/null && command -v jq >/dev/null || \
	  echo "note: without curl and jq the output that documents show is not checked"
	@scripts/engines.sh || echo "note: without these, tests of llama.cpp in shared libraries are skipped"
	@scripts/hub_environment.sh || echo "note: without huggingface_hub its tests against our cache are skipped"
	@scripts/llama_server_environment.sh || echo "note: without a llama-server its tests are skipped"
	@scripts/emulator.sh >/dev/null || echo "note: without an emulator the check of old processors is not tested on them"
	@{ scripts/emulator.sh aarch64 && scripts/cross_compiler.sh; } >/dev/null || \
	  echo "note: without these the kernels for arm64 are not tested"
	@scripts/mlx_environment.sh || echo "note: MLX cannot be installed here, so its tests are skipped"
	@echo "vet (the first run compiles the engine: two to four minutes on two cores)"
	@$(GO) vet ./...
	@echo "import directions"
	@$(GO) test .
	@echo "packages without the engine, with the race detector where more than one goroutine runs"
	@packages=$$($(GO) run ./scripts/racers $(filter-out runner $(unraced),$(pure_pkgs))) && \
	  $(GO) test -race -timeout 20m -p $(at_a_time) $$packages
	@packages=$$($(GO) run ./scripts/racers -v $(filter-out runner $(unraced),$(pure_pkgs))) && \
	  $(GO) test -timeout 20m -p $(at_a_time) $(unraced) $(twice) $$packages
	@echo "packages that link the engine, and end-to-end tests"
	@$(GO) test -timeout 25m $(engine_pkgs)
	@scripts/fuzz.sh 1s

# These tests measure times, so that nothing else may run.
attacks = ^Test(Attacks|LargeBodies|MEWFloods|EndlessStreamsShareTheirPlaces|LongPromptsAreReadBeside|DraftsTakeNoLonger)$$

.PHONY: test-long
test-long: toolchain ## what a release needs: soak tests, crash rounds, attacks, peers, packages, long fuzzing (four hours)
	RUNNER_LONG=1 $(GO) test -timeout 90m -skip '$(attacks)' $(engine_pkgs)
	@echo "package grammar against llama.cpp's own grammar engine, and products with weights stored by llama.cpp"
	RUNNER_LONG=1 $(GO) test -tags peer -timeout 60m -run '(Masks|Refusals)Agree$$|^TestProducts$$' \
	  ./backend/llamacpp ./backend/llamacpp/kernels
	RUNNER_LONG=1 $(GO) test -timeout 120m -count 1 -v -run '$(attacks)' ./cmd/runner
	RUNNER_LONG=1 $(GO) test -race -timeout 60m -skip '^TestSpeed$$' $(pure_pkgs)
	RUNNER_LONG=1 $(GO) test -timeout 20m -count 1 -v -run '^TestSpeed$$' ./models/hub/download
	ENGINE=1 scripts/fuzz.sh $(or $(LONG),2m)
	@$(MAKE) --no-print-directory package-check
	RUNNER_LONG=1 $(MAKE) --no-print-directory test-clients
	@$(MAKE) --no-print-directory test-clients-engines

.PHONY: engines
engines: ## install a llama.cpp in shared libraries and the headers of its versions, for tests (needs npm and cargo)
	@scripts/engines.sh

.PHONY: check-mac
check-mac: toolchain ## check Metal and MLX on Apple silicon and write a report, check-mac.txt, to send in
	@scripts/check_hardware.sh mac

.PHONY: check-gpu
check-gpu: toolchain ## check an NVIDIA GPU and write a report, check-gpu.txt (ENGINE=DIR: a llama.cpp release for CUDA)
	@scripts/check_hardware.sh gpu

.PHONY: test-clients
test-clients: build ## test bin/runner serve with the official clients for Node and Python (skips missing languages)
	@cmd/runner/clients/test.sh

FOLDER_ENGINE := $(CURDIR)/.cache/engines/llama.cpp-0.5.0
.PHONY: test-clients-engines
test-clients-engines: build ## test some clients again, with an engine in a folder and in front of a llama-server
	@if [ -d "$(FOLDER_ENGINE)" ]; then \
	  echo "some clients again, with the engine in $(FOLDER_ENGINE)"; \
	  cmd/runner/clients/test.sh short --engine "$(FOLDER_ENGINE)"; \
	else echo "SKIPPED: clients with an engine in a folder, because $(FOLDER_ENGINE) is not there;" \
	  "make engines installs it where it can"; fi
	@echo "some clients again, in front of a llama-server"
	@scripts/llama_server_environment.sh || true
	@cmd/runner/clients/test.sh address

.PHONY: bench
bench: build engines ## run the short benchmarks of docs/benchmarks.md and renew its tables of runner bench
	$(GO) test -run '^$$' -bench . -benchmem ./backend/sample ./backend/tokenizer ./reasoning/... ./chattemplate/... ./runner
	$(GO) test -tags peer -run '^$$' -bench . -benchmem ./backend/llamacpp ./backend/llamacpp/kernels
	$(GO) run ./scripts/benchtables docs/benchmarks.md

.PHONY: pairs
pairs: toolchain ## compare the speed of two states of the repository: ARGS="-before COMMIT MODEL", see scripts/pairs
	$(GO) run ./scripts/pairs $(ARGS)

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
$(GOLANGCI):
	@echo "installing golangci-lint $(GOLANGCI_VERSION) (compiled once, about five minutes on two cores)"
	@mkdir -p $(TOOLS)/bin
	@CGO_CFLAGS= CGO_CXXFLAGS= GOBIN=$(TOOLS)/bin $(GO) install \
	  github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/bin/golangci-lint $@

.PHONY: lint
lint: toolchain $(GOLANGCI) ## run golangci-lint and ShellCheck, and compile for Macs, with tools of fixed versions
	$(GOLANGCI) run ./...
	@PURE="$(pure_pkgs)" scripts/lint.sh

.PHONY: demo-model
demo-model: build ## train the bundled model or resume its training, and evaluate it (MINUTES=240)
	@python3 -c 'import torch, numpy, regex, ninja' 2>/dev/null || \
	  { echo "runner: python3 with torch, numpy, regex and ninja is required:" \
	    "pip install -r scripts/demo_model/requirements.txt" >&2; exit 1; }
	@echo "checking the fast attention and experts used in training against the plain versions"
	python3 scripts/demo_model/attention_test.py
	python3 scripts/demo_model/experts_test.py
	python3 scripts/demo_model/train.py --minutes $(or $(MINUTES),240) --out .cache/demo-model \
	  $(if $(wildcard .cache/demo-model/checkpoint.pt),--resume)
	python3 scripts/demo_model/export.py .cache/demo-model/checkpoint.pt .cache/demo-model/demo.gguf
	$(GO) run ./scripts/demo_model/eval -runner bin/runner -model .cache/demo-model/demo.gguf -seed 21

.PHONY: demo-eval
demo-eval: build ## evaluate the bundled model: the tables of models/demo/README.md
	$(GO) run ./scripts/demo_model/eval -runner bin/runner -seed 21

.PHONY: tour
tour: toolchain ## run the commands in the documents, update their output and the picture (needs curl and jq)
	@for c in curl jq; do command -v $$c >/dev/null || \
	  { echo "runner: the tour requires '$$c', which is not on the PATH" >&2; exit 1; }; done
	$(GO) test ./cmd/runner -run '^(TestDocuments|TestTerminalPicture)$$' -count=1 -update
	$(GO) test ./cmd/runner -run '^(TestDocuments|TestTerminalPicture)$$' -count=1

.PHONY: page-picture
page-picture: build ## renew the picture of the page in README.md (needs Node; Chromium is unpacked if it is not there)
	@npm ci --silent --prefix cmd/runner/clients/browser
	@BROWSER="$$(scripts/browser.sh)" RUNNER=bin/runner node cmd/runner/clients/browser/picture.mjs docs/page.png

.PHONY: cli-docs
cli-docs: toolchain ## renew docs/cli.md from the commands
	@$(GO) run ./scripts/clidocs markdown > docs/cli.md.new && mv docs/cli.md.new docs/cli.md

.PHONY: clean
clean: ## remove everything that make built
	rm -rf bin dist lib .cache cmd/runner/clients/*/node_modules
