package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"
)

// volumes are those of the type that a request names; there are none of no type.
func volumes(h *handler, w http.ResponseWriter, r *http.Request) error {
	switch kind := r.URL.Query().Get("type"); kind {
	case "":
		return h.reply(w, r, []any{})
	case "host":
		args := queried(map[string]string{"NodeID": "node_id", "NodePool": "node_pool"})
		return listed[*nomad.HostVolumeStub]("HostVolume.List", "Volumes", args)(h, w, r)
	case "csi":
		args := queried(map[string]string{"NodeID": "node_id", "PluginID": "plugin_id"})
		return listed[*nomad.CSIVolumeListStub]("CSIVolume.List", "Volumes", args)(h, w, r)
	}
	return notFound("resource not found")
}

// serverHealth is how servers tell of each other, where a number says whether one is there.
type serverHealth struct {
	nomad.ServerHealth
	SerfStatus int
}

// serfStatuses are the words for these numbers.
var serfStatuses = []string{"none", "alive", "leaving", "left", "failed"}

// health tells whether the servers are well, with Nomad's status where they are not.
var health = passOn("Operator.ServerHealth", nil, func(decode func(any) error) (any, told, error) {
	var got struct {
		Healthy          bool
		FailureTolerance int
		Servers          []*serverHealth
		Leader           string
		Voters           []string
	}
	if err := decode(&got); err != nil {
		return nil, told{}, err
	}
	out := nomad.OperatorHealthReply{Healthy: got.Healthy, FailureTolerance: got.FailureTolerance, Leader: got.Leader, Voters: got.Voters}
	for _, s := range got.Servers {
		if s == nil {
			continue
		}
		if s.SerfStatus >= 0 && s.SerfStatus < len(serfStatuses) {
			s.ServerHealth.SerfStatus = serfStatuses[s.SerfStatus]
		}
		out.Servers = append(out.Servers, s.ServerHealth)
	}
	if !got.Healthy {
		return withStatus{out, http.StatusTooManyRequests}, told{}, nil
	}
	return out, told{}, nil
})
