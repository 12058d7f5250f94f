package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

func TestWhichContainerDangles(t *testing.T) {
	created := time.Unix(1000, 0)
	const task, holder = `{"wasmnode.owner": "me", "com.hashicorp.nomad.alloc_id": "a", "wasmnode.task_id": "a/t/1"}`,
		`{"wasmnode.owner": "me", "com.hashicorp.nomad.alloc_id": "a"}`
	for name, tt := range map[string]struct {
		labels, state string
		age           time.Duration
		used          string
		keeps         bool
		want          bool
	}{
		"a task's":                           {task, "running", time.Minute, "", false, true},
		"one that is not old enough":         {task, "running", time.Minute - 1, "", false, false},
		"one in use":                         {task, "running", time.Hour, "used/a/t/1", false, false},
		"its allocation has another in use":  {task, "created", time.Hour, "used/a/t/2", false, true},
		"one that has ended":                 {task, "exited", time.Hour, "", false, true},
		"one that is kept":                   {task, "exited", time.Hour, "", true, false},
		"one that is not kept, as it runs":   {task, "running", time.Hour, "", true, true},
		"a network's":                        {holder, "running", time.Hour, "used/a/t/1", false, true},
		"a network's in use":                 {holder, "running", time.Hour, "used/network/a", false, false},
		"another node's":                     {strings.Replace(task, "me", "other", 1), "running", time.Hour, "", false, false},
		"one of before, or of Nomad's":       {`{"com.hashicorp.nomad.alloc_id": "a"}`, "running", time.Hour, "", false, false},
		"a person's":                         {`{}`, "running", time.Hour, "", false, false},
		"one whose label is of another kind": {`{"wasmnode.owner": 7}`, "running", time.Hour, "", false, false},
	} {
		d := &docker{collects: collection{containers: !tt.keeps, dangling: dangling{enabled: true, grace: time.Minute}}}
		v, err := config.Parse([]byte(`{"Id": "c", "Created": 1000, "State": "` + tt.state + `", "Labels": ` + tt.labels + `}`))
		require.NoError(t, err)
		require.Equal(t, tt.want, d.dangles(v, "me", map[string]bool{tt.used: true}, created.Add(tt.age)), name)
		require.False(t, d.dangles(v, "", nil, created.Add(tt.age)), name)
	}
}

// Without a label of its own, a container is never taken for one that dangles.
func TestAContainerIsLabelledOnlyWhereItsUseIsNoted(t *testing.T) {
	n, created := scripted(t, map[string]string{
		"GET /version": dockers, "GET /images/pause:1/json": `{"Id": "sha256:1"}`, "POST /containers/create": `{"Id": "c2"}`,
		"POST /containers/c2/start": "", "GET /containers/c2/json": `{}`,
	})
	_, err := n.CreateNetwork("a", "")
	require.NoError(t, err)
	require.Contains(t, created(), `"wasmnode.owner":"`+string(n.Kept()[ownerKey])+`"`)
	require.Contains(t, n.Kept(), "used/network/a")

	_, err = n.CreateNetwork(strings.Repeat("a", 300), "") // which is too long for a note
	require.NoError(t, err)
	require.NotContains(t, created(), labelOwner)
	require.NoError(t, n.Configure(`{"infra_image": "pause:1", "gc": {"dangling_containers": {"enabled": false}}}`))
	_, err = n.CreateNetwork("b", "")
	require.NoError(t, err)
	require.NotContains(t, created(), labelOwner)
	require.NotContains(t, n.Kept(), "used/network/b")

	require.NoError(t, n.Configure(`{"endpoint": "unix:///run/none.sock"}`))
	require.Error(t, n.DestroyNetwork("a"), "there is no engine")
	require.NotContains(t, n.Kept(), "used/network/a", "when there is one again, the container dangles")
}

// A use ends with the task, also where somebody else has removed the container.
func TestWhatIsGoneIsNotInUse(t *testing.T) {
	n, _ := scripted(t, map[string]string{
		"GET /version": dockers, "GET /images/i:1/json": `{"Id": "sha256:1"}`, "POST /containers/create": `{"Id": "c2"}`,
		"POST /containers/c2/start": "", "GET /containers/c2/json": `{}`,
	})
	for name, end := range map[string]func(*driver.TaskConfig) error{
		"the container is gone": func(task *driver.TaskConfig) error {
			return n.DestroyTask(task, state{container: "c3"}.handle(), false)
		},
		"it is removed": func(task *driver.TaskConfig) error { return n.DestroyTask(task, state{container: "c3"}.handle(), true) },
	} {
		task := n.Task(`{"image": "i:1"}`)
		_, _, err := n.StartTask(task)
		require.NoError(t, err, name)
		require.Contains(t, n.Kept(), usedKey+task.Id, name)
		require.NoError(t, end(task), name)
		require.NotContains(t, n.Kept(), usedKey+task.Id, name)
	}
	refused := n.Task(`{"image": "i:1", "pid_mode": "host"}`)
	_, _, err := n.StartTask(refused)
	require.Error(t, err)
	require.NotContains(t, n.Kept(), usedKey+refused.Id)
}

// aDanglingContainer is one that has this node's label, and no note.
func aDanglingContainer(t *testing.T, e *enginetest.Engine) {
	const at, off = `"dangling_containers": {"period": "0s", "creation_grace": "0s"`, `{"gc": {"dangling_containers": {"enabled": false}}}`
	n, other, none := on(t, e), on(t, e), on(t, e)
	require.NoError(t, none.Configure(off))
	used := n.Task(job("wait"))
	handle := started(t, n, used)
	theirs := other.Task(job("wait"))
	theirs.AllocId, theirs.Id = "theirs", "theirs/task/1"
	theirHandle := started(t, other, theirs)
	require.NotEqual(t, n.Kept()[ownerKey], other.Kept()[ownerKey])
	lost := none.Task(strings.Replace(job("wait"), "{", `{"labels": {"wasmnode.owner": "`+string(n.Kept()[ownerKey])+`"}, `, 1))
	lost.AllocId, lost.Id = "lost", "lost/task/1"
	started(t, none, lost)
	looks := func(gc string) (left []string) {
		t.Helper()
		require.NoError(t, n.Configure(`{"gc": {`+gc+`}}`))
		_, err := n.Fingerprint()
		require.NoError(t, err)
		for _, c := range e.Containers(t) {
			left = append(left, c.Labels[labelTask])
		}
		return left
	}
	require.Len(t, looks(at+`, "enabled": false}`), 3)
	require.Len(t, looks(at+`, "dry_run": true}`), 3)
	require.Len(t, looks(`"dangling_containers": {"period": "0s"}`), 3, "it is new")
	require.ElementsMatch(t, []string{used.Id, theirs.Id}, looks(at+`}`))
	require.NoError(t, n.DestroyTask(used, handle, true))
	require.NoError(t, other.DestroyTask(theirs, theirHandle, true))
	require.NotContains(t, n.Kept(), usedKey+used.Id)
}
