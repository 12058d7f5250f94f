package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/toolchain"
)

func TestATableHasALineALanguage(t *testing.T) {
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	drivers := []result{{Language: "c", Size: 16_836, Compiled: 33 * time.Millisecond, Loaded: 5_500_000, Operations: []operation{
		{Op: "driver_describe", Cold: 1},
		{Op: "driver_fingerprint", Cold: 63_400, P50: 2, Calls: 101, Fuel: 150, Memory: 4096},
		{Op: "driver_start_task", P50: 1_234_567, Calls: 1, Memory: 1 << 20},
	}}}
	require.Equal(t, "The driver, which starts a WASI program:\n\n"+
		"|  | size | compiled | loaded | `driver_fingerprint` cold | `driver_fingerprint` | `driver_start_task` | fuel of both | memory |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"+
		"| C | 17 kB | 33ms | 5.5ms | 63 µs | 2ns | 1.2ms | 1.50 | 1.0 MiB |\n"+
		"\nThe device plugin, with ten files:\n\n"+
		"|  | size | compiled | loaded | `device_fingerprint` cold | `device_fingerprint` | `device_stats` | fuel of both | memory |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"+
		"| Zig | 0 B | – | – | – | – | – | 0.00 | 0 B |\n"+
		"\nMeasured on 23 November 2026, on a machine, the least of 3 runs.\n", tables(drivers, []result{{Language: "zig"}}, day, "a machine"))
	for _, language := range toolchain.Languages() {
		require.NotEmpty(t, names[language], language)
	}
}

func TestTheTablesOfAPageAreReplaced(t *testing.T) {
	page, err := replaced("before\n"+first+"old\n"+last+"after\n", "new\n")
	require.NoError(t, err)
	require.Equal(t, "before\n"+first+"\nnew\n\n"+last+"after\n", page)
	again, err := replaced(page, "new\n")
	require.NoError(t, err)
	require.Equal(t, page, again)
	for _, page := range []string{"", first, last, last + first} {
		_, err := replaced(page, "new\n")
		require.ErrorContains(t, err, "<!-- languages: make bench writes what follows --> … <!-- languages: end -->")
	}
}

func TestOfSeveralRunsTheLeastCounts(t *testing.T) {
	r := result{Compiled: 3, Loaded: 1, Operations: []operation{{Cold: 5, P50: 2, Fuel: 7}}}
	r.keepLeast(result{Compiled: 2, Loaded: 4, Operations: []operation{{Cold: 4, P50: 3, Fuel: 6}}})
	require.Equal(t, result{Compiled: 2, Loaded: 1, Operations: []operation{{Cold: 4, P50: 2, Fuel: 6}}}, r)
}

func TestThePageHasTheTables(t *testing.T) {
	text, err := os.ReadFile("../../../docs/write-a-driver.md")
	require.NoError(t, err)
	_, page, _ := strings.Cut(string(text), first)
	for _, language := range toolchain.Languages() {
		require.Regexp(t, `(?s)\n\| `+names[language]+` \| [\d.]+ k?M?B \|.*\n\| `+names[language]+` \| `, page)
	}
}
