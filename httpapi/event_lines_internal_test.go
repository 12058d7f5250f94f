package httpapi

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

// Clients that read slowly do not multiply what is kept of the events that they read.
func TestARenderingIsSharedForAsLongAsAnybodyHasIt(t *testing.T) {
	c := newRenderedBatches()
	batch := &structs.ChangeBatch{Index: 1, Events: []*structs.ChangeEvent{{Topic: "Job", Object: &nomad.Job{}}}}
	all := &events{topics: []topicFilter{{"*", "*"}}, namespace: "*", caller: &caller{rights: acl.Everything(), enough: true}}
	slow, err := c.events(0, batch, all)
	require.NoError(t, err)
	for place := range uint64(3 * renderedKept) {
		_, err := c.events(place+1, batch, all)
		require.NoError(t, err)
	}
	again, err := c.events(0, batch, all)
	require.NoError(t, err)
	require.Same(t, slow[0], again[0])
	require.Len(t, c.latest, renderedKept)
}
