package structs

import (
	"math/big"
	"slices"
)

// unit is what one of a unit is in the base of its dimension.
type unit struct {
	base   string
	factor *big.Rat
}

// units are the units that attributes and statistics may have. Their values convert
// exactly.
var units = unitTable()

func unitTable() map[string]unit {
	table := map[string]unit{}
	one := big.NewRat(1, 1)
	add := func(base string, symbols []string, first *big.Rat, step int64, suffix string) {
		factor := new(big.Rat).Set(first)
		for _, s := range symbols {
			table[s+suffix] = unit{base + suffix, new(big.Rat).Set(factor)}
			factor.Mul(factor, new(big.Rat).SetInt64(step))
		}
	}
	for _, suffix := range []string{"", "/s"} {
		add("B", []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}, one, 1000, suffix)
		add("B", []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}, big.NewRat(1<<10, 1), 1<<10, suffix)
	}
	add("Hz", []string{"Hz", "kHz", "MHz", "GHz"}, one, 1000, "")
	add("W", []string{"mW", "W", "kW", "MW", "GW"}, big.NewRat(1, 1000), 1000, "")
	add("s", []string{"ns", "us", "ms", "s"}, big.NewRat(1, 1_000_000_000), 1000, "")
	add("V", []string{"mV", "V"}, big.NewRat(1, 1000), 1000, "")
	for _, alone := range []string{"C", "%", "rpm"} {
		add(alone, []string{alone}, one, 1, "")
	}
	return table
}

// KnownUnit reports whether a number may have a unit; none is known too.
func KnownUnit(symbol string) bool {
	_, ok := units[symbol]
	return ok || symbol == ""
}

// Units returns the known units, sorted.
func Units() []string {
	symbols := make([]string, 0, len(units))
	for s := range units {
		symbols = append(symbols, s)
	}
	slices.Sort(symbols)
	return symbols
}
