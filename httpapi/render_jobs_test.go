package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// Files of older versions hold evaluations as Nomad's API has them.
func TestAnEvaluationThatWasStoredInNomadsShapeIsRenderedAsItWas(t *testing.T) {
	want := &nomad.Evaluation{
		ID: "e", Priority: 50, Type: "service", TriggeredBy: "job-register", Namespace: "default", JobID: "web", JobModifyIndex: 3,
		Status: nomad.EvalStatusBlocked, StatusDescription: "d", WaitUntil: time.Unix(9, 0).UTC(), NextEval: "n", PreviousEval: "p", BlockedEval: "b",
		FailedTGAllocs: map[string]*nomad.AllocationMetric{"g": {
			NodesEvaluated: 1, NodesFiltered: 2, NodesInPool: 3, NodePool: "default", NodesAvailable: map[string]int{"dc1": 1},
			ConstraintFiltered: map[string]int{"c": 1}, NodesExhausted: 4, DimensionExhausted: map[string]int{"memory": 1}, CoalescedFailures: 5,
		}},
		PlanAnnotations: &nomad.PlanAnnotations{DesiredTGUpdates: map[string]*nomad.DesiredUpdates{"g": {
			Ignore: 1, Place: 2, Stop: 3, InPlaceUpdate: 4, DestructiveUpdate: 5, RescheduleNow: 6, RescheduleLater: 7, Migrate: 8, Canary: 9,
		}}},
		QueuedAllocations: map[string]int{"g": 1}, SnapshotIndex: 5, CreateIndex: 6, ModifyIndex: 7, CreateTime: 8, ModifyTime: 9,
	}
	stored, err := json.Marshal(want)
	require.NoError(t, err)
	e := &structs.Evaluation{}
	require.NoError(t, json.Unmarshal(stored, e))
	require.Equal(t, want, evaluation(e))
	require.Equal(t, nomad.EvalStatusCancelled, string(structs.EvaluationCancelled))
}

func TestAnEvaluationThatDecidedNothingIsRenderedWithoutDecisions(t *testing.T) {
	require.Equal(t, &nomad.Evaluation{ID: "e"}, evaluation(&structs.Evaluation{ID: "e"}))
}
