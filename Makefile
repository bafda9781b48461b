# Two commands are all a newcomer needs: `make run` and `make test`.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help run demo test soak lint fmt build tools bench bench-quick flood bench-cala postgres crash-matrix postback-storm postgres-versions side-by-side planted-bugs webhook-libraries api-tools openapi fuzz-api browser pay-images console-images fuzz deb package-test deploy-tools lint-deploy

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

tools:
	@command -v $(CARGO) >/dev/null || { echo "a Rust toolchain is needed: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is needed: apt-get install gcc libc6-dev"; exit 1; }

# The tests start servers of their own; a running one is not used.
postgres:
	@test -n "$$PIX_TEST_PG_BIN" || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null \
		|| { echo "PostgreSQL 15 or newer is needed for the tests: apt-get install postgresql"; exit 1; }
	@test -n "$$PIX_TEST_PG_BIN" || command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer \
		|| { echo "PgBouncer is needed for the tests: apt-get install pgbouncer"; exit 1; }
	@command -v redis-server >/dev/null || test -x "$$PIX_TEST_PG_BIN/redis-server" \
		|| { echo "Redis is needed for the tests: apt-get install redis-server"; exit 1; }

# The tests open the payment page in it.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
		|| { echo "Chromium and its driver are needed for the tests: apt-get install chromium chromium-driver"; exit 1; }

webhook-libraries: ## Install the published libraries that the tests verify postbacks with
	@tests/webhooks/install.sh

api-tools: ## Install what the tests hold the document of the interface against
	@tests/api/install.sh

deploy-tools: ## Install what the files of deploy/ are checked with
	@tests/deploy/install.sh

lint-deploy: deploy-tools ## Check Containerfile, compose.yaml and deploy/: hadolint, caddy, promtool with the tests of the alerts, systemd-analyze
	@tests/deploy/lint.sh

# Built once, which takes a minute or two.
CARGO_DEB := target/tools/bin/cargo-deb
$(CARGO_DEB):
	$(CARGO) install cargo-deb --version 3.8.0 --locked --quiet --root target/tools

deb: build $(CARGO_DEB) ## Make the Debian package: target/debian/pix-gateway_*.deb
	deploy/debian/build.sh $${CARGO_TARGET_DIR:-target}/release/pix-gateway target/debian
	@ls -l target/debian/*.deb

package-test: tools $(CARGO_DEB) ## Make the Debian package, install it (as root), take a charge with it, remove it; PROFILE=debug for the build at hand
	$(CARGO) build $(if $(filter release,$(PROFILE)),--release) --package pix-gateway
	tests/packaging/run.sh $${CARGO_TARGET_DIR:-target}/$(PROFILE)/pix-gateway

openapi: tools ## Write docs/openapi.json, the OpenAPI document, and docs/postman.json from the code
	$(CARGO) run --quiet --package pix-gateway -- openapi > docs/openapi.json
	$(CARGO) run --quiet --package pix-gateway -- openapi --postman > docs/postman.json

run: tools ## Build and start the gateway on 127.0.0.1:8080, with a simulated provider and a demo key
	$(CARGO) run --package pix-gateway -- serve --demo

demo: tools ## Walk through the main job on a fresh store, and check every step
	$(CARGO) run --quiet --package pix-gateway -- demo

build: tools ## Build the optimised program: target/release/pix-gateway
	$(CARGO) build --release --package pix-gateway

test: tools postgres browser webhook-libraries api-tools ## Run every test: unit, conformance, documents, and the running program
	$(CARGO) test --workspace --all-features

fuzz-api: tools api-tools ## Look for SECONDS for a request whose answer the OpenAPI document doesn't tell of
	PIX_FUZZ_API_SECONDS=$(or $(SECONDS),120) $(CARGO) test --package pix-tests --test api_document -- --nocapture every_answer

# Built once, which takes a minute or two.
CARGO_FUZZ := target/tools/bin/cargo-fuzz
$(CARGO_FUZZ):
	$(CARGO) install cargo-fuzz --version 0.13.2 --locked --quiet --root target/tools

fuzz: tools $(CARGO_FUZZ) ## Fuzz what reads the bytes of others, SECONDS for each target; TARGET=amount for one, INPUT=file to run that alone
	@command -v c++ >/dev/null || { echo "a C++ compiler is needed: apt-get install g++"; exit 1; }
	@tests/fuzz/run.sh "$(or $(SECONDS),60)" "$(TARGET)" "$(INPUT)"

SEEDS ?= 1000000
PROFILE ?= release

soak: tools ## Simulate a million worlds full of faults, from a million seeds (SEEDS=1000 for fewer)
	$(CARGO) run --release --quiet --package pix-simulation --bin pix-soak -- --seeds $(SEEDS)

crash-matrix: tools postgres ## Kill the program at every step under every behaviour of the provider; MATRIX='--cells 700' for a share
	$(CARGO) run --quiet --package pix-tests --bin crash_matrix -- $(MATRIX)

EVENTS ?= 100000

postback-storm: tools postgres ## Deliver EVENTS postbacks to receivers that fail, by relay processes that are killed; STORM='--seed 7' for others
	$(CARGO) run --quiet --package pix-tests --bin postback_storm -- --events $(EVENTS) $(STORM)

postgres-versions: tools postgres ## Run the suites of the store over PostgreSQL on 13, 14, 16, 17 and 18 too, and through PgBouncer in transaction mode; VERSIONS='13 pooled' for some
	@tests/postgres/run.sh $(VERSIONS)

# The older version is built in a folder of its own: it takes some minutes, and space for a second target folder.
OLD ?= HEAD~1
SIDE := $(CURDIR)/target/side-by-side

side-by-side: tools postgres ## Bring the version OLD (a commit) up to date under load, node by node, with both versions running
	rm -rf "$(SIDE)/src" && git clone --quiet . "$(SIDE)/src" && git -C "$(SIDE)/src" checkout --quiet "$(OLD)"
	cd "$(SIDE)/src" && CARGO_TARGET_DIR="$(SIDE)/build" $(CARGO) build --package pix-gateway
	PIX_OLD_PROGRAM="$(SIDE)/build/debug/pix-gateway" $(CARGO) test --package pix-tests --test kill -- --ignored --nocapture an_older_version

pay-images: tools browser ## Take the pictures of the payment page and of a receipt anew: docs/images/*.png
	$(CARGO) run --quiet --package pix-tests --bin pay_images -- docs/images

console-images: tools browser ## Take the pictures of the operators' console anew: docs/images/console-*.png
	$(CARGO) run --quiet --package pix-tests --bin console_images -- docs/images

planted-bugs: tools ## Plant one-line mistakes in a scratch copy, one by one, and see that a suite turns red with each
	tests/planted/run.sh $(PLANTED)

# Built once, which takes a minute or two.
CARGO_DENY := target/tools/bin/cargo-deny
$(CARGO_DENY):
	$(CARGO) install cargo-deny --version 0.20.2 --locked --quiet --root target/tools

lint: tools $(CARGO_DENY) ## Format, clippy, documentation and what is depended on, all without a warning
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO_DENY) --log-level error check licenses bans sources

fmt: tools ## Format the code
	$(CARGO) fmt --all

bench: tools bench-cala ## Measure everything against its references (about an hour and a half), and write docs/BENCHMARKS.md
	$(CARGO) build --release --package pix-bench --package pix-gateway
	target/release/pix-bench --long --document docs/BENCHMARKS.md

bench-quick: tools ## The two-minute form of it
	$(CARGO) build --release --package pix-bench
	target/release/pix-bench --quick

flood: tools postgres ## Measure good traffic beside a flood of sign-ins and a thousand slow connections (PROFILE=debug for the build at hand)
	$(CARGO) build $(if $(filter release,$(PROFILE)),--release) --package pix-bench --package pix-gateway
	ulimit -n $$(ulimit -Hn) && target/$(PROFILE)/pix-bench --only door --gateway target/$(PROFILE)/pix-gateway --summary target/bench/door.json

bench-cala:
	-CARGO_TARGET_DIR=target/bench/cala timeout 600 $(CARGO) build --release --locked --manifest-path crates/bench/cala/Cargo.toml
