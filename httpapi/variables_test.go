package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
)

// variables is Nomad's Go client of an API without an agent around it.
func variables(t *testing.T, cp httpapi.ControlPlane) (url string, client *nomad.Client) {
	t.Helper()
	server := serve(t, cp, nil)
	client, err := nomad.NewClient(&nomad.Config{Address: server.URL})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return server.URL, client
}

func items(pairs ...string) nomad.VariableItems {
	m := nomad.VariableItems{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestVariablesByNomadsClient(t *testing.T) {
	_, client := variables(t, plane(t))
	v := client.Variables()
	_, _, err := v.Read("app/db", nil)
	require.ErrorIs(t, err, nomad.ErrVariablePathNotFound)
	none, _, err := v.Peek("app/db", nil)
	require.NoError(t, err)
	require.Nil(t, none)
	list, meta, err := v.List(nil)
	require.NoError(t, err)
	require.Empty(t, list)

	made, wrote, err := v.CheckedCreate(&nomad.Variable{Path: "/app/db/", Items: items("user", "root", "odd.key", "ä\n")}, nil)
	require.NoError(t, err)
	require.Equal(t, "app/db", made.Path)
	require.Equal(t, "default", made.Namespace)
	require.Equal(t, made.ModifyIndex, wrote.LastIndex)
	require.Greater(t, made.ModifyIndex, meta.LastIndex)
	read, meta, err := v.Read("app/db", nil)
	require.NoError(t, err)
	require.Equal(t, made, read)
	require.Equal(t, made.ModifyIndex, meta.LastIndex)

	_, _, err = v.CheckedCreate(&nomad.Variable{Path: "app/db", Items: items("a", "b")}, nil)
	var conflict nomad.ErrCASConflict
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, made, conflict.Conflict, "the present one")
	_, _, err = v.CheckedUpdate(&nomad.Variable{Path: "none", ModifyIndex: 9, Items: items("a", "b")}, nil)
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, &nomad.Variable{Namespace: "default", Path: "none"}, conflict.Conflict)

	made.Items["user"] = "other"
	changed, _, err := v.CheckedUpdate(made, nil)
	require.NoError(t, err)
	require.Equal(t, made.CreateIndex, changed.CreateIndex)
	forced, _, err := v.Update(&nomad.Variable{Path: "app/db", Items: items("only", "this")}, nil)
	require.NoError(t, err)
	got, _, err := v.GetVariableItems("app/db", nil)
	require.NoError(t, err)
	require.Equal(t, items("only", "this"), got)

	_, err = v.CheckedDelete("app/db", changed.ModifyIndex, nil)
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, forced, conflict.Conflict)
	_, err = v.CheckedDelete("app/db", forced.ModifyIndex, nil)
	require.NoError(t, err)
	_, err = v.Delete("app/db", nil)
	require.NoError(t, err, "it is deleted already")
	_, _, err = v.Read("app/db", nil)
	require.ErrorIs(t, err, nomad.ErrVariablePathNotFound)
}

func TestVariablesAreListedByPrefixFilterAndPage(t *testing.T) {
	_, client := variables(t, plane(t))
	v := client.Variables()
	for i := range 25 {
		_, _, err := v.Create(&nomad.Variable{Path: fmt.Sprintf("app/%02d", i), Items: items("secret", "s3cr3t")}, nil)
		require.NoError(t, err)
	}
	_, _, err := v.Create(&nomad.Variable{Path: "nomad/jobs", Items: items("a", "b")}, nil)
	require.NoError(t, err)
	paths := func(q *nomad.QueryOptions) (all []string, next string) {
		list, meta, err := v.List(q)
		require.NoError(t, err)
		for _, m := range list {
			all = append(all, m.Path)
		}
		return all, meta.NextToken
	}
	all, _ := paths(nil)
	require.Len(t, all, 26)
	require.IsIncreasing(t, all)
	var paged []string
	for next := ""; ; {
		var page []string
		page, next = paths(&nomad.QueryOptions{PerPage: 10, NextToken: next, Prefix: "app/"})
		paged = append(paged, page...)
		if next == "" {
			break
		}
		require.Equal(t, "default.app/"+fmt.Sprint(len(paged)), next)
	}
	require.Equal(t, all[:25], paged)
	found, _ := paths(&nomad.QueryOptions{Filter: `Path matches "^app/1[0-4]$"`, Reverse: true})
	require.Equal(t, []string{"app/14", "app/13", "app/12", "app/11", "app/10"}, found)
	found, _ = paths(&nomad.QueryOptions{Params: map[string]string{"path": "nomad/"}})
	require.Equal(t, []string{"nomad/jobs"}, found)
	found, _ = paths(&nomad.QueryOptions{Namespace: "*", Prefix: "nomad"})
	require.Len(t, found, 1)
	found, _ = paths(&nomad.QueryOptions{Namespace: "other"})
	require.Empty(t, found)
	_, _, err = v.List(&nomad.QueryOptions{Filter: `Items.secret == "s3cr3t"`})
	require.ErrorContains(t, err, "400", "what is secret cannot be asked for bit by bit")
}

func TestAVariableIsWaitedFor(t *testing.T) {
	_, client := variables(t, plane(t))
	v := client.Variables()
	first, _, err := v.Create(&nomad.Variable{Path: "a", Items: items("n", "1")}, nil)
	require.NoError(t, err)
	type seen struct {
		n     string
		index uint64
		err   error
	}
	answers := make(chan seen, 1) // one at a time
	follow := func(index uint64) {
		go func() {
			got, meta, err := v.Peek("a", &nomad.QueryOptions{WaitIndex: index, WaitTime: time.Minute})
			s := seen{err: err}
			if got != nil {
				s.n = got.Items["n"]
			}
			if meta != nil {
				s.index = meta.LastIndex
			}
			answers <- s
		}()
	}
	follow(first.ModifyIndex)
	_, _, err = v.Create(&nomad.Variable{Path: "other", Items: items("n", "1")}, nil)
	require.NoError(t, err)
	_, _, err = v.Update(&nomad.Variable{Path: "a", Items: items("n", "2")}, nil)
	require.NoError(t, err)
	second := <-answers
	require.NoError(t, second.err)
	require.Equal(t, "2", second.n, "another variable's change is none")
	follow(second.index)
	_, err = v.Delete("a", nil)
	require.NoError(t, err)
	gone := <-answers
	require.NoError(t, gone.err)
	require.Empty(t, gone.n)
	require.Greater(t, gone.index, second.index)

	list := make(chan int, 1)
	_, meta, err := v.List(nil)
	require.NoError(t, err)
	go func() {
		all, _, err := v.List(&nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
		if err != nil {
			t.Error(err)
		}
		list <- len(all)
	}()
	_, _, err = v.Create(&nomad.Variable{Path: "a", Items: items("n", "3")}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, <-list)
}

// Statuses and texts are Nomad's.
func TestBadRequestsForVariables(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/v1/var/", "", 400, "missing variable path"},
		{"PUT", "/v1/var/", `{"Items":{"a":"b"}}`, 400, "missing variable path"},
		{"DELETE", "/v1/var/", "", 400, "missing variable path"},
		{"GET", "/v1/var/a.b", "", 404, "variable not found"},
		{"PUT", "/v1/var/a", "", 400, "variable missing required Items object"},
		{"PUT", "/v1/var/a", `{"Items":{}}`, 400, "variable missing required Items object"},
		{"PUT", "/v1/var/a", `{"Items":{"a":1}}`, 400, "request body: json: cannot unmarshal number into Go struct field Variable.Items of type string"},
		{"PUT", "/v1/var/a", `{`, 400, "request body: unexpected end of JSON input"},
		{"PUT", "/v1/var/a.b", `{"Items":{"a":"b"}}`, 400, `invalid path "a.b"`},
		{"PUT", "/v1/var/a%2Fb%20c", `{"Items":{"a":"b"}}`, 400, `invalid path "a/b c"`},
		{"POST", "/v1/var/nomad/x", `{"Items":{"a":"b"}}`, 400, `only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory`},
		{"PUT", "/v1/var/a?cas=x", `{"Items":{"a":"b"}}`, 400, `can not parse cas: strconv.ParseUint: parsing "x": invalid syntax`},
		{"DELETE", "/v1/var/a?cas=-1", "", 400, `can not parse cas: strconv.ParseUint: parsing "-1": invalid syntax`},
		{"PUT", "/v1/var/a?namespace=*", `{"Items":{"a":"b"}}`, 400, `can not target wildcard ("*")namespace`},
		{"PUT", "/v1/var/a?namespace=x", `{"Items":{"a":"b"}}`, 400, `variable "a" is in nonexistent namespace "x"`},
		{"PUT", "/v1/var/a", `{"Namespace":"y","Items":{"a":"b"}}`, 400, `variable "a" is in nonexistent namespace "y"`},
		{"PUT", "/v1/var/a", `{"Items":{"a":"` + strings.Repeat("b", 64<<10) + `"}}`, 400, "variables are limited to 64KiB in total size"},
		{"PUT", "/v1/var/a?lock-acquire", `{"Lock":{"TTL":"9s"}}`, 400, "TTL must be between 10 seconds and 24 hours"},
		{"PUT", "/v1/var/a?lock-acquire&lock-renew", `{}`, 400, "multiple lock operations"},
		{"PUT", "/v1/var/a?lock-acquire&lock-renew&lock-release", `{}`, 400, "multiple lock operations"},
		{"PUT", "/v1/var/a?lock-acquire&cas=1", `{}`, 400, "CAS can't be used with lock operations"},
		{"PUT", "/v1/var/?lock-acquire", `{}`, 400, "missing variable path"},
		{"PUT", "/v1/var/a?lock-renew", `{}`, 400, "missing lock ID"},
		{"PUT", "/v1/var/a?lock-renew", `{"Lock":{"ID":"x"}}`, 404, "variable doesn't exist"},
		{"PUT", "/v1/var/a?lock-release", `{}`, 400, "missing lock information"},
		{"PUT", "/v1/var/a?lock-release", `{"Items":{},"Lock":{"ID":"x"}}`, 400, "lock release operation doesn't take variable items"},
		{"PUT", "/v1/var/a?lock-release", `{"Lock":{"ID":"x"}}`, 404, "variable doesn't exist"},
		{"PUT", "/v1/var/a", `{"Items":{"a":"b"},"Lock":{"TTL":"15s"}}`, 400, "variable should not contain lock definition"},
		{"PUT", "/v1/var/a", `{"Items":{"a":"b"},"Lock":{"ID":"x"}}`, 409, "variable doesn't hold a lock"},
		{"PUT", "/v1/operator/keyring/rotate?algo=rot13", "", 400, `root keys are of the algorithm "aes256-gcm", not "rot13"`},
		{"PUT", "/v1/operator/keyring/rotate?publish_time=17", "", 400, "a root key is used and published at once, and the ones before it stay published: rotate it when it is to be used"},
		{"PUT", "/v1/operator/keyring/rotate?full=perhaps", "", 400, "Expect `true` or `false` for `full` query string parameter, got \"perhaps\""},
		{"GET", "/v1/operator/keyring/rotate", "", 405, "Invalid method"},
	} {
		r := w.do(t, c.method, c.path, c.body)
		require.Equal(t, c.text, r.body, "%s %s", c.method, c.path)
		require.Equal(t, c.status, r.status, "%s %s", c.method, c.path)
	}
	r := w.do(t, "PUT", "/v1/var/a?cas=5", `{"Items":{"a":"b"}}`)
	require.Equal(t, http.StatusConflict, r.status)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.Equal(t, http.StatusNoContent, w.do(t, "DELETE", "/v1/var/a", "").status)
}

func TestRootKeysByNomadsClient(t *testing.T) {
	_, client := variables(t, plane(t))
	k := client.Keyring()
	none, _, err := k.List(nil)
	require.NoError(t, err)
	require.Empty(t, none)
	_, _, err = client.Variables().Create(&nomad.Variable{Path: "a", Items: items("a", "b")}, nil)
	require.NoError(t, err)
	keys, _, err := k.List(nil)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	second, _, err := k.Rotate(&nomad.KeyringRotateOptions{Algorithm: nomad.EncryptionAlgorithmAES256GCM}, nil)
	require.NoError(t, err)
	require.Equal(t, nomad.RootKeyStateActive, second.State)
	_, err = k.Delete(&nomad.KeyringDeleteOptions{KeyID: second.KeyID, Force: true}, nil)
	require.ErrorContains(t, err, "active root key cannot be deleted - call rotate first")
	_, err = k.Delete(&nomad.KeyringDeleteOptions{KeyID: keys[0].KeyID}, nil)
	require.ErrorContains(t, err, "root key in use, cannot delete")
	third, _, err := k.Rotate(&nomad.KeyringRotateOptions{Full: true}, nil)
	require.NoError(t, err)
	for _, id := range []string{keys[0].KeyID, second.KeyID} {
		_, err = k.Delete(&nomad.KeyringDeleteOptions{KeyID: id}, nil)
		require.NoError(t, err)
	}
	keys, _, err = k.List(nil)
	require.NoError(t, err)
	require.Equal(t, []*nomad.RootKeyMeta{third}, keys)
	v, _, err := client.Variables().Read("a", nil)
	require.NoError(t, err)
	require.Equal(t, items("a", "b"), v.Items)
}

// Who reads what is sealed with a key that was removed is told which, and what to do.
func TestAVariableThatCannotBeReadIsListed(t *testing.T) {
	cp, err := standalone.Open(standalone.Options{Path: filepath.Join(t.TempDir(), "server.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	_, client := variables(t, cp)
	v := client.Variables()
	_, _, err = v.Create(&nomad.Variable{Path: "a", Items: items("a", "b")}, nil)
	require.NoError(t, err)
	old, _, err := client.Keyring().List(nil)
	require.NoError(t, err)
	_, _, err = client.Keyring().Rotate(nil, nil)
	require.NoError(t, err)
	_, err = client.Keyring().Delete(&nomad.KeyringDeleteOptions{KeyID: old[0].KeyID, Force: true}, nil)
	require.NoError(t, err)
	_, _, err = v.Read("a", nil)
	var answer nomad.UnexpectedResponseError
	require.True(t, errors.As(err, &answer))
	require.Equal(t, http.StatusBadRequest, answer.StatusCode())
	require.Contains(t, answer.Body(), "root key "+old[0].KeyID+" cannot be read")
	list, _, err := v.List(nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, _, err = v.CheckedUpdate(&nomad.Variable{Path: "a", ModifyIndex: list[0].ModifyIndex, Items: items("a", "c")}, nil)
	require.NoError(t, err, "it can be written again")
	read, _, err := v.Read("a", nil)
	require.NoError(t, err)
	require.Equal(t, items("a", "c"), read.Items)
}
