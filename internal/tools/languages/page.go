package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// The lines of the page that the tables are between.
const (
	first = "<!-- languages: make bench writes what follows -->\n"
	last  = "<!-- languages: end -->\n"
)

// names are those that people know the languages by.
var names = map[string]string{"assemblyscript": "AssemblyScript", "c": "C", "go": "Go", "rust": "Rust", "zig": "Zig"}

// tables are the two tables and where they are from.
func tables(drivers, devices []result, day time.Time, machine string) string {
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	write("The driver, which starts a WASI program:\n\n")
	table(&b, drivers, []string{"driver_fingerprint", "driver_start_task"})
	write("\nThe device plugin, with ten files:\n\n")
	table(&b, devices, []string{"device_fingerprint", "device_stats"})
	write("\nMeasured on %s, on %s, the least of %d runs.\n", day.Format("2 January 2006"), machine, runs)
	return b.String()
}

// table has a line a language; of the operations the first has more columns.
func table(b *strings.Builder, results []result, ops []string) {
	header := []string{"", "size", "compiled", "loaded", "`" + ops[0] + "` cold", "`" + ops[0] + "`", "`" + ops[1] + "`", "fuel of both", "memory"}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, r := range results {
		one, two := r.operation(ops[0]), r.operation(ops[1])
		row := []string{
			names[r.Language], humanize.Bytes(uint64(r.Size)), digits(r.Compiled), digits(r.Loaded),
			digits(one.Cold), digits(one.P50), digits(two.P50), perCall(one, two), humanize.IBytes(max(one.Memory, two.Memory)),
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}

// perCall is how often a call of each operation was given fuel, together.
func perCall(ops ...operation) string {
	sum := 0.0
	for _, o := range ops {
		if o.Calls > 1 {
			sum += float64(o.Fuel) / float64(o.Calls-1)
		}
	}
	return fmt.Sprintf("%.2f", sum)
}

// digits is a time with the two digits that mean something on a machine with other work.
func digits(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return strings.Replace(d.Round(unit).String(), "µs", " µs", 1)
}

// replaced is a page with other tables.
func replaced(page, tables string) (string, error) {
	before, rest, begins := strings.Cut(page, first)
	_, after, ends := strings.Cut(rest, last)
	if !begins || !ends {
		return "", errors.New("it lacks one of the two lines that the tables are between: " + strings.TrimSpace(first) + " … " + strings.TrimSpace(last))
	}
	return before + first + "\n" + tables + "\n" + last + after, nil
}

// machine says what kind of machine this is.
func machine() string {
	kind := runtime.GOOS + "/" + runtime.GOARCH
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				kind += ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d processors, %s", runtime.NumCPU(), kind)
}
