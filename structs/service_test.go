package structs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// TestTheChoiceOfServicesIsNomads has the orders in which its servers choose these registrations.
func TestTheChoiceOfServicesIsNomads(t *testing.T) {
	for _, c := range []struct {
		n    int
		key  string
		want []string
	}{
		{0, "aaa", nil},
		{1, "aaa", []string{"abc002"}},
		{3, "aaa", []string{"abc002", "abc003", "abc001"}},
		{9, "bbb", []string{"abc001", "abc002", "abc003"}},
		{3, "ccc", []string{"abc002", "abc003", "abc001"}},
	} {
		var list []*structs.ServiceRegistration
		for _, id := range []string{"abc001", "abc002", "abc003"} {
			list = append(list, &structs.ServiceRegistration{ID: id, ServiceName: "s1"})
		}
		var ids []string
		for _, s := range structs.ChooseServices(list, c.n, c.key) {
			ids = append(ids, s.ID)
		}
		require.Equal(t, c.want, ids, "%d %s", c.n, c.key)
	}
}
