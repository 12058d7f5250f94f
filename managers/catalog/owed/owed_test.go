package owed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog/owed"
)

// TestWhoAlwaysFailsDoesNotHaveOthersForgotten has one that owes more than there is room for, after
// another and before a third.
func TestWhoAlwaysFailsDoesNotHaveOthersForgotten(t *testing.T) {
	var kept []string
	l := owed.New(owed.Config[string]{
		What: "removals", Logger: hclog.NewNullLogger(),
		Same: func(a, b string) bool { return a == b },
		Of:   func(s string) string { return strings.Split(s, " ")[0] },
		Put:  func(all []string) error { kept = all; return nil },
	})
	l.Add("before 0")
	for i := range owed.Max + 10 {
		l.Add(fmt.Sprintf("failing %d", i))
	}
	l.Add("after 0")
	require.Len(t, kept, owed.Max)
	require.Equal(t, []string{"before 0", "failing 12"}, kept[:2], "its own oldest are dropped")
	require.Equal(t, []string{fmt.Sprintf("failing %d", owed.Max+9), "after 0"}, kept[owed.Max-2:])
}
