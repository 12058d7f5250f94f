package cluster

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/jobpayload"
	"github.com/wasmnode/wasmnode/structs"
)

// wireAlloc is an allocation as servers send it, with what a node needs of it.
type wireAlloc struct {
	ID, Namespace, EvalID, Name, NodeID, NodeName, JobID, TaskGroup string
	Job                                                             *nomad.Job
	AllocatedResources                                              *wireAllocated
	DesiredStatus, DesiredDescription                               string
	DesiredTransition                                               struct{ Migrate, NoShutdownDelay *bool }
	ClientStatus, ClientDescription                                 string
	TaskStates                                                      map[string]*wireTaskState
	DeploymentID                                                    string
	DeploymentStatus                                                *wireHealth
	PreviousAllocation, NextAllocation                              string
	PreemptedAllocations                                            []string
	PreemptedByAllocation, FollowupEvalID                           string
	SignedIdentities                                                map[string]string
	CreateIndex, ModifyIndex, AllocModifyIndex                      uint64
	CreateTime, ModifyTime                                          int64
}

type wireAllocated struct {
	Tasks  map[string]*wireTaskResources
	Shared struct {
		DiskMB int64
		Ports  []wirePort
	}
}

type wireTaskResources struct {
	Cpu struct {
		CpuShares     int64
		ReservedCores []uint16
	}
	Memory  struct{ MemoryMB, MemoryMaxMB int64 }
	Devices []*structs.AllocatedDevice
}

type wirePort struct {
	Label     string
	Value, To int
	HostIP    string
}

// What an allocation may have at most; servers keep to far less.
const (
	maxTasks     = 1000
	maxName      = 512
	maxPorts     = 1000
	maxMegabytes = 1 << 40
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// allocOf is an allocation of the node's own, checked: its ID and its tasks' names become
// those of files, and what it was given becomes numbers of the machine.
func allocOf(w *wireAlloc, nodeID string) (a *structs.Allocation, err error) {
	defer func() { // of what Nomad's own types do with values that no server makes
		if r := recover(); r != nil {
			a, err = nil, fmt.Errorf("its job cannot be read: %v", r)
		}
	}()
	if err := w.check(nodeID); err != nil {
		return nil, err
	}
	if err := jobpayload.Unpack(w.Job); err != nil {
		return nil, err
	}
	w.Job.Canonicalize()
	a = &structs.Allocation{
		ID: w.ID, Namespace: w.Namespace, EvalID: w.EvalID, Name: w.Name, NodeID: w.NodeID, NodeName: w.NodeName,
		JobID: w.JobID, TaskGroup: w.TaskGroup, Job: w.Job, Resources: w.resources(),
		DesiredStatus: structs.DesiredStatus(w.DesiredStatus), DesiredDescription: w.DesiredDescription,
		NoShutdownDelay: structs.Deref(w.DesiredTransition.NoShutdownDelay), Migrate: structs.Deref(w.DesiredTransition.Migrate),
		ClientStatus: structs.ClientStatus(w.ClientStatus), ClientDescription: w.ClientDescription, TaskStates: w.taskStates(),
		DeploymentID: w.DeploymentID, PreviousAllocation: w.PreviousAllocation, NextAllocation: w.NextAllocation,
		PreemptedAllocations: w.PreemptedAllocations, PreemptedByAllocation: w.PreemptedByAllocation, FollowupEvalID: w.FollowupEvalID,
		CreateIndex: w.CreateIndex, ModifyIndex: w.ModifyIndex, AllocModifyIndex: w.AllocModifyIndex,
		CreateTime: w.CreateTime, ModifyTime: w.ModifyTime,
	}
	if d := w.DeploymentStatus; d != nil {
		a.DeploymentStatus = &structs.DeploymentStatus{Healthy: d.Healthy, Timestamp: d.Timestamp, Canary: d.Canary, DeploymentID: w.DeploymentID}
	}
	return a, nil
}

// check refuses what no server of Nomad sends.
func (w *wireAlloc) check(nodeID string) error {
	switch {
	case !uuid.MatchString(w.ID):
		return fmt.Errorf("its ID is no UUID")
	case w.NodeID != nodeID:
		return fmt.Errorf("it is of another node, %.40q", w.NodeID)
	case w.Job == nil || w.Job.ID == nil || *w.Job.ID != w.JobID:
		return fmt.Errorf("it has no job, or another one's")
	case w.DesiredStatus != string(structs.DesiredRun) && w.DesiredStatus != string(structs.DesiredStop) && w.DesiredStatus != string(structs.DesiredEvict):
		return fmt.Errorf("it is wanted to %.40q", w.DesiredStatus)
	case w.AllocatedResources == nil:
		return fmt.Errorf("it was given no resources")
	}
	for _, text := range []string{w.Namespace, w.JobID, w.TaskGroup, w.Name} {
		if len(text) > maxName || strings.ContainsRune(text, 0) {
			return fmt.Errorf("a name of it has more than %d bytes, or a zero byte", maxName)
		}
	}
	for _, id := range append([]string{w.PreviousAllocation}, w.PreemptedAllocations...) {
		if id != "" && !uuid.MatchString(id) {
			return fmt.Errorf("an allocation that it waits for has no UUID for an ID")
		}
	}
	if err := w.checkTasks(); err != nil {
		return err
	}
	return w.checkPorts()
}

// checkTasks looks at the allocation's group, and that nothing in the job is missing that
// is looked into.
func (w *wireAlloc) checkTasks() error {
	if at := emptyIn(reflect.ValueOf(w.Job), "job"); at != "" {
		return fmt.Errorf("%s of it is empty", at)
	}
	var group *nomad.TaskGroup
	for _, g := range w.Job.TaskGroups {
		if g.Name == nil {
			return fmt.Errorf("its job has a group without a name")
		}
		if *g.Name == w.TaskGroup {
			group = g
		}
	}
	if group == nil {
		return fmt.Errorf("its job has no group %.40q", w.TaskGroup)
	}
	if len(group.Tasks) == 0 || len(group.Tasks) > maxTasks {
		return fmt.Errorf("its group has %d tasks; from 1 to %d are possible", len(group.Tasks), maxTasks)
	}
	if err := checkAbilities(group); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, t := range group.Tasks {
		if !isFileName(t.Name) || seen[t.Name] {
			return fmt.Errorf("task %.40q: it cannot be called so, or another one is", t.Name)
		}
		seen[t.Name] = true
		r := w.AllocatedResources.Tasks[t.Name]
		if r == nil {
			return fmt.Errorf("task %q was given no resources", t.Name)
		}
		m := r.Memory
		if r.Cpu.CpuShares < 0 || r.Cpu.CpuShares > maxMegabytes || m.MemoryMB < 0 || m.MemoryMB > maxMegabytes || m.MemoryMaxMB < structs.MemoryUnlimited || m.MemoryMaxMB > maxMegabytes {
			return fmt.Errorf("task %q was given resources that no machine has", t.Name)
		}
		for _, d := range r.Devices {
			if d == nil {
				return fmt.Errorf("task %q was given an empty device", t.Name)
			}
		}
	}
	return nil
}

// checkAbilities refuses a group that asks for what is not done here, where servers do not see
// that before they place it.
func checkAbilities(group *nomad.TaskGroup) error {
	for name, v := range group.Volumes {
		if v.Type == "csi" {
			return fmt.Errorf("volume %.40q: there are no CSI volumes on this node", name)
		}
	}
	for _, t := range group.Tasks {
		switch {
		case t.CSIPluginConfig != nil:
			return fmt.Errorf("task %.40q: csi_plugin: there are no CSI volumes on this node, and no plugins of them", t.Name)
		case t.Schedule != nil:
			return fmt.Errorf("task %.40q: schedule: tasks run as long as their allocation on this node", t.Name)
		case len(t.Secrets) > 0:
			return fmt.Errorf("task %.40q: secret: there is nothing to read secrets from on this node", t.Name)
		case t.Vault != nil:
			return fmt.Errorf("task %.40q: vault: there is no Vault on this node", t.Name)
		case t.Consul != nil:
			return fmt.Errorf("task %.40q: consul: there is no Consul on this node", t.Name)
		}
	}
	return nil
}

// emptyIn returns where a list or map of structs has one that is nil, which nothing that runs a
// job expects; empty: nowhere. Free values, as of a driver's configuration, may have them.
func emptyIn(v reflect.Value, at string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return emptyIn(v.Elem(), at)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if found := emptyIn(v.Field(i), at+"."+f.Name); found != "" {
					return found
				}
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if found := emptyElement(v.Index(i), fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if found := emptyElement(v.MapIndex(key), fmt.Sprintf("%s[%.40q]", at, key)); found != "" {
				return found
			}
		}
	}
	return ""
}

func emptyElement(v reflect.Value, at string) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return at
	}
	return emptyIn(v, at)
}

func (w *wireAlloc) checkPorts() error {
	s := w.AllocatedResources.Shared
	if s.DiskMB < 0 || s.DiskMB > maxMegabytes || len(s.Ports) > maxPorts {
		return fmt.Errorf("it was given a disk that no machine has, or more than %d ports", maxPorts)
	}
	for _, p := range s.Ports {
		if p.Value < 0 || p.Value > 65535 || p.To < -1 || p.To > 65535 || len(p.Label) > maxName {
			return fmt.Errorf("port %.40q: %d to %d is not a port", p.Label, p.Value, p.To)
		}
	}
	return nil
}

// isFileName reports whether a text can be the name of a directory, and no other path.
func isFileName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 255 && !strings.ContainsAny(s, "/\\\x00")
}

func (w *wireAlloc) resources() structs.AllocatedResources {
	r := structs.AllocatedResources{Tasks: map[string]*structs.TaskResources{}, DiskMB: int(w.AllocatedResources.Shared.DiskMB)}
	for name, t := range w.AllocatedResources.Tasks {
		if t == nil {
			continue // of no task of the group
		}
		own := &structs.TaskResources{CPUMHz: int(t.Cpu.CpuShares), MemoryMB: int(t.Memory.MemoryMB), MemoryMaxMB: int(t.Memory.MemoryMaxMB)}
		for _, c := range t.Cpu.ReservedCores {
			own.Cores = append(own.Cores, int(c))
		}
		for _, d := range t.Devices {
			if d != nil {
				own.Devices = append(own.Devices, *d)
			}
		}
		r.Tasks[name] = own
	}
	for _, p := range w.AllocatedResources.Shared.Ports {
		r.Ports = append(r.Ports, structs.AllocatedPort{Label: p.Label, HostIP: p.HostIP, Value: p.Value, To: max(p.To, 0)})
	}
	return r
}

// taskStates are as servers have them: the node knows its own better.
func (w *wireAlloc) taskStates() map[string]*structs.TaskState {
	if w.TaskStates == nil {
		return nil
	}
	states := map[string]*structs.TaskState{}
	for name, t := range w.TaskStates {
		if t == nil {
			continue
		}
		s := &structs.TaskState{}
		for _, e := range t.Events {
			if e != nil {
				s.Append(&structs.TaskEvent{Type: e.Type, Time: e.Time, Message: e.Message, DisplayMessage: e.DisplayMessage, Details: e.Details, FailsTask: e.FailsTask})
			}
		}
		s.State, s.Failed, s.StartedAt, s.FinishedAt = structs.TaskPhase(t.State), t.Failed, t.StartedAt, t.FinishedAt
		s.Restarts, s.LastRestart = t.Restarts, t.LastRestart // and not counted again by the events
		states[name] = s
	}
	return states
}
