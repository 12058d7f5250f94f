package httpapi

import (
	"net/http"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) schedulerRoutes() {
	const path = "/v1/operator/scheduler/configuration"
	h.get(path, tableScheduler, h.readScheduler)
	h.put(path, h.writeScheduler)
}

// schedulerRead is how Nomad answers a read of the scheduler's configuration.
type schedulerRead struct {
	SchedulerConfig *nomad.SchedulerConfiguration
	Index           uint64
	KnownLeader     bool
	LastContact     int
	NextToken       string
}

func (h *handler) readScheduler(*http.Request, *query) (answer, error) {
	c := h.ControlPlane.SchedulerConfiguration()
	return answer{body: &schedulerRead{SchedulerConfig: c, Index: c.ModifyIndex, KnownLeader: true}, index: c.ModifyIndex}, nil
}

// schedulerWritten is how Nomad answers a change of it.
type schedulerWritten struct {
	Updated bool
	Index   uint64
}

// writeScheduler changes the configuration, with cas only the one of that index.
func (h *handler) writeScheduler(r *http.Request) (any, error) {
	var c *nomad.SchedulerConfiguration
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, badRequest("request body: the configuration is missing")
	}
	var check *uint64
	if s := r.URL.Query().Get("cas"); s != "" {
		index, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, badRequest("Error parsing cas value: %q is not an index", s)
		}
		check = &index
	}
	updated, err := h.ControlPlane.SetSchedulerConfiguration(*c, check)
	if err != nil {
		return nil, err
	}
	return &schedulerWritten{updated, h.ControlPlane.SchedulerConfiguration().ModifyIndex}, nil
}

// mayRegister refuses what would give jobs more to run while the scheduler's configuration
// has that refused, but to a manager's token.
func (h *handler) mayRegister(r *http.Request) error {
	if !h.ControlPlane.SchedulerConfiguration().RejectJobRegistration {
		return nil
	}
	caller, err := h.policy.Caller(r)
	if err != nil {
		return err
	}
	if caller.Token != nil && caller.Token.Type == structs.ACLManagement {
		return nil
	}
	return &statusError{http.StatusForbidden, "job registration, dispatch, and scale are disabled by the scheduler configuration"}
}
