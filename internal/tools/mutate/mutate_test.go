package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "module example.test/m\n\ngo 1.26\n"

const source = `package m

import "errors"

var errNegative = errors.New("negative")

func Clamp(n, most int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	if n > most {
		n = most
	}
	return n, nil
}
`

// weak never asks for the error, nor for what is just at the bound.
const weak = `package m

import "testing"

func TestClamp(t *testing.T) {
	for n, want := range map[int]int{-1: 0, 1: 1, 9: 5} {
		if got, _ := Clamp(n, 5); got != want {
			t.Fatal(n, got)
		}
	}
}
`

func packageOf(t *testing.T, test string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "m.go": source, "m_test.go": test} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestEveryChangeIsOfOnePlace(t *testing.T) {
	dir := packageOf(t, weak)
	all, err := mutants(dir, regexp.MustCompile(""))
	require.NoError(t, err)
	var what []string
	for _, m := range all {
		what = append(what, m.what)
	}
	require.Equal(t, []string{
		"never: if n < 0", "always: if n < 0", "<= for < in n < 0",
		"no error: return 0, errNegative",
		"never: if n > most", "always: if n > most", ">= for > in n > most", "removed: n = most",
	}, what)
}

// nested has one change in another, and changes that begin or end in one place; three of
// its changes do not compile.
const nested = `package m

func Nested(a, b int, name string, more ...bool) (string, bool) {
	list := make([]int, 0, a+b)
	if a < b && !(b-1 > a || len(more) == 0) != true {
		list = append(list, a)
	}
	return name + "s", len(list) != 0 && a+b <= 9
}

func Named(name string) string {
	const twice = 1 + 1
	return name + name
}
`

func TestChangesNest(t *testing.T) {
	t.Setenv("GOWORK", "off")
	test := `package m

import "testing"

func TestNested(t *testing.T) {
	_, yes := Nested(1, 2, "n")
	_, no := Nested(2, 1, "n")
	if !yes || no || Named("a") != "aa" {
		t.Fatal(yes, no)
	}
}
`
	dir := packageOf(t, test)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.go"), []byte(nested), 0o600))
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-n", "0", dir}, &out))
	require.Contains(t, out.String(), "all                            68% of 16 noticed\n", "texts are not subtracted")
}

func TestASampleIsTheSameForASeed(t *testing.T) {
	all, err := mutants(packageOf(t, weak), regexp.MustCompile(""))
	require.NoError(t, err)
	require.Len(t, sample(all, 3, 7), 3)
	what := func(list []mutant) (texts []string) {
		for _, m := range list {
			texts = append(texts, m.what)
		}
		return texts
	}
	require.Equal(t, what(sample(all, 3, 7)), what(sample(all, 3, 7)))
	require.Equal(t, what(all), what(sample(all, 0, 7)))
}

func TestWhatTheTestsDoNotNoticeIsReported(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	dir := packageOf(t, weak)
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-n", "0", dir}, &out))
	for _, survivor := range []string{
		"SURVIVED m.go:8: <= for < in n < 0 (reached by 1 tests)\n",
		"SURVIVED m.go:9: no error: return 0, errNegative (reached by 1 tests)\n",
		"SURVIVED m.go:11: >= for > in n > most (reached by 1 tests)\n",
	} {
		require.Contains(t, out.String(), survivor)
	}
	require.NotContains(t, out.String(), "SURVIVED m.go:12")
	require.Contains(t, out.String(), "all                            62% of 8 noticed\n")
}

func TestAPackageWhoseTestsFailIsRefused(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := packageOf(t, strings.ReplaceAll(weak, "9: 5", "9: 6"))
	require.ErrorContains(t, run(t.Context(), []string{dir}, &strings.Builder{}), "the tests fail without a change")
	require.ErrorContains(t, run(t.Context(), nil, &strings.Builder{}), "name the directory")
	require.ErrorContains(t, run(t.Context(), []string{t.TempDir()}, &strings.Builder{}), "nothing to change")
}
