package standalone

import (
	"slices"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// maxDeletedEvals bounds how many evaluations one transaction deletes.
const maxDeletedEvals = 10_000

// DeleteEvaluations forgets evaluations, also those that wait, while a person has evaluations
// paused: of what is deleted nothing follows. Those with allocations that have not ended are
// kept. By ID all of them have to be there, and none to be kept; with matches they are those
// of which it is true. It returns how many were deleted.
func (cp *ControlPlane) DeleteEvaluations(ids []string, matches func(*structs.Evaluation) (bool, error)) (count int, err error) {
	err = cp.write(func(t *tx) error {
		if !t.scheduler.PauseEvalBroker {
			return errdefs.New(errdefs.FailedPrecondition, "eval broker is enabled; eval broker must be paused to delete evals")
		}
		chosen := ids
		if matches != nil {
			if chosen, err = t.matchingEvals(matches); err != nil {
				return err
			}
		}
		for _, id := range chosen {
			switch {
			case t.evals.get(id) == nil:
				return notFound("eval not found")
			case t.isBusy(id):
				return errdefs.New(errdefs.FailedPrecondition, "eval %s is not safe to delete", id)
			}
		}
		for _, id := range chosen {
			job := evaluated(t.evals.get(id))
			t.deleteEval(id)
			t.refreshStatus(job)
		}
		count = len(chosen)
		return nil
	})
	return count, err
}

// isBusy reports whether an evaluation decided what still runs, or is to.
func (t *tx) isBusy(id string) bool { return slices.ContainsFunc(t.allocsByEval.in(id), notEnded) }

func (t *tx) matchingEvals(matches func(*structs.Evaluation) (bool, error)) (ids []string, err error) {
	t.evals.all(func(id string, e *structs.Evaluation) {
		if err != nil || len(ids) == maxDeletedEvals || t.isBusy(id) {
			return
		}
		var is bool
		if is, err = matches(e); is && err == nil {
			ids = append(ids, id)
		}
	})
	return ids, err
}
