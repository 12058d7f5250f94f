package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

func (h *handler) volumeRoutes() {
	h.get("/v1/volumes", tableHostVolumes, h.listVolumes)
	h.get("/v1/volume/host/{id}", tableHostVolumes, h.readVolume)
	h.put("/v1/volume/host/create", h.createVolume)
	h.put("/v1/volume/host/register", h.registerVolume)
	h.method("/v1/volume/host/{id}", h.deleteVolume, http.MethodDelete)
	h.get("/v1/volumes/claims", tableVolumeClaims, h.listClaims)
	h.method("/v1/volumes/claim/{id}", h.deleteClaim, http.MethodDelete)
}

// listVolumes lists dynamic host volumes, or those of CSI: none. As in Nomad no type is that.
func (h *handler) listVolumes(r *http.Request, q *query) (answer, error) {
	v := r.URL.Query()
	if v.Get("type") != "host" {
		return answer{body: []any{}}, nil
	}
	node, pool := v.Get("node_id"), v.Get("node_pool")
	list := slices.DeleteFunc(h.ControlPlane.HostVolumes(), func(o *nomad.HostVolume) bool {
		return !q.inNamespace(o.Namespace) || node != "" && o.NodeID != node || pool != "" && o.NodePool != pool ||
			!strings.HasPrefix(o.Name, q.prefix) && !strings.HasPrefix(o.ID, q.prefix)
	})
	slices.SortFunc(list, func(a, b *nomad.HostVolume) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	stubs, next, err := page(q, list,
		func(o *nomad.HostVolume) string { return o.Namespace + "." + o.ID },
		func(o *nomad.HostVolume) any { return o },
		func(o *nomad.HostVolume) *nomad.HostVolumeStub {
			return &nomad.HostVolumeStub{
				Namespace: o.Namespace, ID: o.ID, Name: o.Name, PluginID: o.PluginID, NodePool: o.NodePool, NodeID: o.NodeID,
				CapacityBytes: o.CapacityBytes, State: o.State,
				CreateIndex: o.CreateIndex, CreateTime: o.CreateTime, ModifyIndex: o.ModifyIndex, ModifyTime: o.ModifyTime,
			}
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) readVolume(r *http.Request, q *query) (answer, error) {
	v := h.ControlPlane.HostVolume(q.namespace, r.PathValue("id"))
	if v == nil {
		return answer{}, notFound("volume not found")
	}
	out := *v
	out.Allocations = []*nomad.AllocationListStub{}
	for _, a := range h.ControlPlane.VolumeAllocations(v.ID) {
		out.Allocations = append(out.Allocations, allocationStub(a))
	}
	return answer{body: &out, index: v.ModifyIndex}, nil
}

// decodeVolume reads a volume's definition, with the namespace of the request where it has none.
func decodeVolume(r *http.Request) (*nomad.HostVolume, error) {
	var body nomad.HostVolumeCreateRequest // as that of registering
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	if body.Volume == nil {
		return nil, badRequest("missing volume definition")
	}
	v := *body.Volume
	v.Namespace = cmp.Or(v.Namespace, q.namespace)
	if !q.caller.mayIn(v.Namespace) {
		return nil, access.ErrDenied
	}
	return &v, nil
}

// createVolume answers when the volume's plugin has, and the node is told of it: the volume is
// ready then, or will be.
func (h *handler) createVolume(r *http.Request) (any, error) {
	v, err := decodeVolume(r)
	if err == nil {
		v, err = h.ControlPlane.CreateHostVolume(r.Context(), v)
	}
	return answeredVolume(v), err
}

func (h *handler) registerVolume(r *http.Request) (any, error) {
	v, err := decodeVolume(r)
	if err == nil {
		v, err = h.ControlPlane.RegisterHostVolume(r.Context(), v)
	}
	return answeredVolume(v), err
}

// volumeAnswer is Nomad's answer to who made a volume.
type volumeAnswer struct {
	Volume          *nomad.HostVolume
	Warnings        string
	nomad.WriteMeta `json:"-"`
}

func answeredVolume(v *nomad.HostVolume) *volumeAnswer {
	if v == nil {
		return nil
	}
	return &volumeAnswer{Volume: v, WriteMeta: nomad.WriteMeta{LastIndex: v.ModifyIndex}}
}

func (h *handler) deleteVolume(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	force, err := boolParameter(r, "force")
	if err != nil {
		return err
	}
	index, err := h.ControlPlane.DeleteHostVolume(r.Context(), q.namespace, r.PathValue("id"), force)
	if err != nil {
		return err
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	return h.reply(w, r, struct{ Index uint64 }{index})
}

func (h *handler) listClaims(r *http.Request, q *query) (answer, error) {
	v := r.URL.Query()
	unlike := func(parameter, is string) bool { return v.Get(parameter) != "" && v.Get(parameter) != is }
	list := slices.DeleteFunc(h.ControlPlane.VolumeClaims(), func(c *nomad.TaskGroupHostVolumeClaim) bool {
		return !q.inNamespace(c.Namespace) || !q.hasUUIDPrefix(c.ID) ||
			unlike("job_id", c.JobID) || unlike("task_group", c.TaskGroupName) || unlike("volume_name", c.VolumeName)
	})
	slices.SortFunc(list, func(a, b *nomad.TaskGroupHostVolumeClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	same := func(c *nomad.TaskGroupHostVolumeClaim) *nomad.TaskGroupHostVolumeClaim { return c }
	out, next, err := page(q, list,
		func(c *nomad.TaskGroupHostVolumeClaim) string { return c.Namespace + "." + c.ID },
		func(c *nomad.TaskGroupHostVolumeClaim) any { return c }, same)
	return answer{body: out, next: next}, err
}

// deleteClaim answers without a body, as Nomad does.
func (h *handler) deleteClaim(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	return done(w)(h.ControlPlane.DeleteVolumeClaim(q.namespace, r.PathValue("id")))
}
