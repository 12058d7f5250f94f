package structs_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestAnAttributeIsReadAsItIsMeant(t *testing.T) {
	for text, want := range map[string]structs.Attribute{
		"true":               structs.BoolAttribute(true),
		"4":                  structs.IntAttribute(4, ""),
		"-4":                 structs.IntAttribute(-4, ""),
		"0":                  structs.IntAttribute(0, ""),
		" 11 GiB ":           structs.IntAttribute(11, "GiB"),
		"11GiB":              structs.IntAttribute(11, "GiB"),
		"4.5 GHz":            structs.FloatAttribute(4.5, "GHz"),
		"80 MB/s":            structs.IntAttribute(80, "MB/s"),
		"50%":                structs.IntAttribute(50, "%"),
		"11 gibibytes":       structs.StringAttribute("11 gibibytes"),
		"GiB":                structs.StringAttribute("GiB"),
		"NaN":                structs.StringAttribute("NaN"),
		"1e999":              structs.StringAttribute("1e999"),
		"99999999999999 EiB": structs.IntAttribute(99999999999999, "EiB"),
		"":                   structs.StringAttribute(""),
		"sm_86":              structs.StringAttribute("sm_86"),
	} {
		require.True(t, want.Equal(structs.ParseAttribute(text)), "%q is read as %q", text, structs.ParseAttribute(text).Text())
	}
}

func TestNumbersCompareAcrossUnits(t *testing.T) {
	for _, c := range []struct {
		a    string
		sign string
		b    string
	}{
		{"1 GiB", "=", "1024 MiB"}, {"4 GiB", ">", "4 GB"}, {"4096 MiB", "=", "4 GiB"}, {"3.9 GiB", "<", "4 GiB"},
		{"1.5 kW", "=", "1500 W"}, {"1 mW", "<", "1 W"}, {"900 MHz", "<", "1 GHz"}, {"1 MiB/s", ">", "1 MB/s"},
		{"9223372036854775807 EiB", ">", "9223372036854775806 EiB"}, {"2", "<", "10"}, {"2.0", "=", "2"},
		{"false", "<", "true"}, {"abc", "<", "abd"}, {"1 s", "=", "1000 ms"}, {"0", "=", "0.0"},
		{"1 GiB", "?", "1"}, {"1 GiB", "?", "1 GHz"}, {"1 GiB", "?", "1 GiB/s"}, {"1", "?", "one"}, {"true", "?", "1"},
	} {
		order, ok := structs.ParseAttribute(c.a).Compare(structs.ParseAttribute(c.b))
		want, comparable := map[string]int{"<": -1, "=": 0, ">": 1}[c.sign]
		require.Equal(t, comparable, ok, "%s and %s", c.a, c.b)
		require.Equal(t, want, order, "%s and %s", c.a, c.b)
		back, ok := structs.ParseAttribute(c.b).Compare(structs.ParseAttribute(c.a))
		require.Equal(t, comparable, ok)
		require.Equal(t, -want, back)
	}
	_, ok := structs.FloatAttribute(math.NaN(), "").Compare(structs.FloatAttribute(1, ""))
	require.False(t, ok)
	_, ok = structs.IntAttribute(1, "parsec").Compare(structs.IntAttribute(1, "parsec"))
	require.False(t, ok, "a unit that nobody knows")
	_, ok = structs.Attribute{}.Compare(structs.Attribute{})
	require.False(t, ok)
}

func TestUnsetAndZeroDiffer(t *testing.T) {
	require.False(t, structs.Attribute{}.IsSet())
	for _, zero := range []structs.Attribute{structs.IntAttribute(0, ""), structs.FloatAttribute(0, ""), structs.StringAttribute(""), structs.BoolAttribute(false)} {
		require.True(t, zero.IsSet())
		require.False(t, zero.Equal(structs.Attribute{}))
		encoded, err := json.Marshal(zero)
		require.NoError(t, err)
		var decoded structs.Attribute
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.True(t, zero.Equal(decoded))
	}
}

func TestAFigureIsANumberInTheBaseOfItsUnit(t *testing.T) {
	five, half, text := int64(5), 0.5, "five"
	for _, c := range []struct {
		v      *structs.StatValue
		number float64
		unit   string
		ok     bool
	}{
		{&structs.StatValue{Int: &five, Unit: "MiB"}, 5 << 20, "B", true},
		{&structs.StatValue{Float: &half, Unit: "kW"}, 500, "W", true},
		{&structs.StatValue{Int: &five, Unit: "ms"}, 0.005, "s", true},
		{&structs.StatValue{Int: &five}, 5, "", true},
		{&structs.StatValue{String: &text}, 0, "", false},
		{nil, 0, "", false},
	} {
		number, unit, ok := c.v.Number()
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.unit, unit)
		require.InDelta(t, c.number, number, 1e-12)
	}
}

func TestTheUnitsOfTheContractAreKnown(t *testing.T) {
	for _, u := range structs.Units() {
		require.True(t, structs.KnownUnit(u))
		order, ok := structs.IntAttribute(1, u).Compare(structs.IntAttribute(2, u))
		require.True(t, ok)
		require.Equal(t, -1, order)
		require.True(t, structs.IntAttribute(7, u).Equal(structs.ParseAttribute("7 "+u)), u)
	}
	page, err := os.ReadFile("../abi/ABI.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "\nUnits: ")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n\n")
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '%' })
	for _, u := range structs.Units() {
		require.Contains(t, words, strings.TrimSuffix(u, "/s"), "abi/ABI.md does not have %s", u)
	}
	require.True(t, structs.KnownUnit(""))
	require.False(t, structs.KnownUnit("gib"))
}

func TestARequestMatchesByTypeVendorAndName(t *testing.T) {
	id := structs.DeviceGroupID{Vendor: "nvidia", Type: "gpu", Name: "1080ti"}
	for _, request := range []string{"gpu", "nvidia/gpu", "nvidia/gpu/1080ti"} {
		require.True(t, id.Matches(request), request)
	}
	for _, request := range []string{"", "nvidia", "gpu/nvidia", "amd/gpu", "nvidia/gpu/1080", "nvidia/gpu/1080ti/x", "/gpu", "gpu/", "//"} {
		require.False(t, id.Matches(request), request)
	}
	require.Equal(t, "nvidia/gpu/1080ti", id.String())
}

func TestCopiesShareNothing(t *testing.T) {
	n := int64(3)
	stats := &structs.DeviceGroupStats{Devices: map[string]*structs.DeviceStats{"a": {
		Summary: &structs.StatValue{Int: &n, IntDenominator: &n},
		Stats:   &structs.StatObject{Nested: map[string]*structs.StatObject{"m": {Attributes: map[string]*structs.StatValue{"used": {Int: &n}}}}},
		Time:    time.Unix(1, 0),
	}}}
	c := stats.Copy()
	require.Equal(t, stats, c)
	*c.Devices["a"].Summary.Int = 9
	c.Devices["a"].Stats.Nested["m"].Attributes["used"].Unit = "B"
	delete(c.Devices["a"].Stats.Nested, "m")
	require.Equal(t, int64(3), n)
	require.Empty(t, stats.Devices["a"].Stats.Nested["m"].Attributes["used"].Unit)

	groups := []*structs.DeviceGroup{{Devices: []structs.Device{{ID: "a"}}, Attributes: map[string]structs.Attribute{"x": structs.IntAttribute(1, "")}}}
	copied := structs.CopyDeviceGroups(groups)
	require.True(t, groups[0].Equal(copied[0]))
	copied[0].Devices[0].ID = "b"
	copied[0].Attributes["x"] = structs.Attribute{}
	require.Equal(t, "a", groups[0].Devices[0].ID)
	require.True(t, groups[0].Attributes["x"].IsSet())
	require.False(t, groups[0].Equal(copied[0]))
}
