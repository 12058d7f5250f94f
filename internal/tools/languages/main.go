// Command languages measures the example driver and the example device plugin of each language,
// which do the same in all, and prints what that costs as tables.
//
//	languages [-bin DIR] [-page FILE]
//
// DIR is what make build fills: the binary, which measures by its command plugin bench, the
// plugins, and the programs. With -page the tables take the place of those that are between the
// two lines of FILE that say so, with the day and the kind of machine. Start reading at [measure].
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/internal/toolchain"
)

func main() {
	bin := flag.String("bin", "bin", "what make build fills")
	page := flag.String("page", "", "the page whose tables are replaced")
	flag.Parse()
	if err := run(*bin, *page); err != nil {
		fmt.Fprintln(os.Stderr, "languages:", err)
		os.Exit(1)
	}
}

func run(bin, page string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	devices, err := os.MkdirTemp("", "languages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(devices)
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(devices, fmt.Sprint("device-", i)), []byte("here"), 0o600); err != nil {
			return err
		}
	}
	var drivers, plugins []result
	for _, language := range toolchain.Languages() {
		driver, err := measureDriver(bin, language)
		if err != nil {
			return err
		}
		device, err := measureDevice(bin, language, devices)
		if err != nil {
			return err
		}
		drivers, plugins = append(drivers, driver), append(plugins, device)
	}
	text := tables(drivers, plugins, time.Now(), machine())
	fmt.Print(text)
	if page == "" {
		return nil
	}
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	after, err := replaced(string(before), text)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(after), 0o644) //nolint:gosec // a page of the documentation
}

// result is what plugin bench prints of a plugin of a language; times are in nanoseconds.
type result struct {
	Language         string `json:"-"`
	Size             int
	Compiled, Loaded time.Duration
	Operations       []operation
}

type operation struct {
	Op        string
	Cold, P50 time.Duration
	Calls     int
	Fuel      uint64 // of all calls but the cold one
	Memory    uint64
}

func (r *result) operation(op string) operation {
	for _, o := range r.Operations {
		if o.Op == op {
			return o
		}
	}
	return operation{}
}

// measureDriver measures the driver that runs a WASI program. Go's can do more: it is the one that
// nodes use.
func measureDriver(bin, language string) (result, error) {
	name := language + "_minimal"
	if language == "go" {
		name = "wasi"
	}
	programs := filepath.Join(bin, "programs")
	return measure(bin, language, name,
		"-grant", fmt.Sprintf("wasm { directories = [%q] }", programs),
		"-task", fmt.Sprintf("module = %q\nargs = [\"1h\"]", filepath.Join(programs, "sleep.wasm")))
}

// measureDevice measures the device plugin whose devices are the files of a directory.
func measureDevice(bin, language, devices string) (result, error) {
	name := language + "_example"
	if language == "go" {
		name = "example"
	}
	config := devices + ".hcl"
	defer os.Remove(config)
	text := fmt.Sprintf("plugin %q {\n  config { dir = %q }\n  grant {\n    fs { read_only = [%q] }\n  }\n}\n", name, devices, devices)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return result{}, err
	}
	return measure(bin, language, name, "-config", config)
}

// calls are those of each operation, and runs how often a plugin is measured: of its times the
// least counts, which other work on the machine disturbed least.
const (
	calls = 200
	runs  = 3
)

func measure(bin, language, plugin string, flags ...string) (best result, err error) {
	for i := range runs {
		args := append([]string{"plugin", "bench", "-json", "-calls", fmt.Sprint(calls)}, flags...)
		cmd := exec.Command(filepath.Join(bin, "wasmnode"), append(args, filepath.Join(bin, "plugins", plugin+".wasm"))...)
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = errors.New(strings.TrimSpace(string(exit.Stderr)))
			}
			return best, fmt.Errorf("%s: %w", plugin, err)
		}
		var r result
		if err := json.Unmarshal(out, &r); err != nil {
			return best, fmt.Errorf("%s: %w", plugin, err)
		}
		if i == 0 {
			best = r
		}
		best.keepLeast(r)
	}
	best.Language = language
	return best, nil
}

func (r *result) keepLeast(other result) {
	r.Compiled, r.Loaded = min(r.Compiled, other.Compiled), min(r.Loaded, other.Loaded)
	for i := range min(len(r.Operations), len(other.Operations)) {
		o, with := &r.Operations[i], other.Operations[i]
		o.Cold, o.P50, o.Fuel = min(o.Cold, with.Cold), min(o.P50, with.P50), min(o.Fuel, with.Fuel)
	}
}
