package structs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRangesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{"": "", " ": "", "22": "22", "22, 8000-8100": "22,8000-8100", "1-1": "1", "65535": "65535"} {
		set, err := ParseRanges(text, 1, 65535)
		require.NoError(t, err, text)
		require.Equal(t, want, set.String(), text)
	}
	for _, text := range []string{"a", "1-", "-1", "2-1", "0", "65536", "1,,2", "1-2-3", "1;2"} {
		_, err := ParseRanges(text, 1, 65535)
		require.Error(t, err, text)
	}
	set, err := ParseRanges("0,2-3", 0, 9)
	require.NoError(t, err)
	require.Equal(t, 3, set.CountBelow(9))
	require.Equal(t, 2, set.CountBelow(3))
	for n, in := range map[int]bool{0: true, 1: false, 2: true, 3: true, 4: false} {
		require.Equal(t, in, set.Has(n), n)
	}
}

func TestNumbersAreASet(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "0": {0}, "0-2": {2, 0, 1, 1}, "1,3-4,9": {9, 3, 4, 1}} {
		require.Equal(t, want, RangesOf(numbers).String())
	}
}

func FuzzRanges(f *testing.F) {
	for _, text := range []string{"", "1", "1-2", "1,3-4", "-", "9-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseRanges(text, 0, 100)
		if err != nil {
			return
		}
		again, err := ParseRanges(set.String(), 0, 100)
		require.NoError(t, err)
		require.Equal(t, set, again)
	})
}
