package template_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// kept are variables of the namespace default, which one task reads; what is below "others" it may
// not, and what is below "away" cannot be asked now.
type kept map[string]*nomad.Variable

var reader = structs.TaskIdentity{AllocID: "a1", Task: "web"}

func (k kept) TaskVariable(_ context.Context, by structs.TaskIdentity, namespace, path string) (*nomad.Variable, error) {
	switch {
	case by != reader, strings.HasPrefix(path, "others"):
		return nil, errdefs.New(errdefs.PermissionDenied, "Permission denied: %s", path)
	case strings.HasPrefix(path, "away"):
		return nil, errors.New("not now")
	case namespace != "default":
		return nil, nil
	}
	return k[path], nil
}

func (k kept) TaskVariableIndex(ctx context.Context, by structs.TaskIdentity, namespace, path string) (uint64, error) {
	v, err := k.TaskVariable(ctx, by, namespace, path)
	if v == nil {
		return 0, err
	}
	return v.ModifyIndex, nil
}

func (k kept) TaskVariables(_ context.Context, _ structs.TaskIdentity, namespace, prefix string) (list []*nomad.VariableMetadata, err error) {
	if prefix == "away" {
		return nil, errors.New("not now")
	}
	for _, path := range []string{"app/db", "app/web"} {
		if v := k[path]; v != nil && namespace == "default" && strings.HasPrefix(path, prefix) {
			list = append(list, v.Metadata())
		}
	}
	return list, nil
}

func (k kept) TaskVariablesStamp(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) (stamp uint64, err error) {
	list, err := k.TaskVariables(ctx, by, namespace, prefix)
	for _, v := range list {
		stamp = stamp*1000 + v.ModifyIndex
	}
	return stamp, err
}

func variable(path string, index uint64, items nomad.VariableItems) *nomad.Variable {
	return &nomad.Variable{Namespace: "default", Path: path, CreateIndex: 3, ModifyIndex: index, CreateTime: 1e18, ModifyTime: 2e18, Items: items}
}

func readsVariables(t *testing.T) (template.Input, kept) {
	in := input(t, map[string]string{"NOMAD_REGION": "global"})
	all := kept{
		"app/db":  variable("app/db", 7, nomad.VariableItems{"user": "root", "password": "swordfish", "quoted": "a\"b\nc"}),
		"app/web": variable("app/web", 9, nomad.VariableItems{"port": "80"}),
	}
	in.Variables, in.Namespace, in.Task = all, "default", reader
	return in, all
}

func TestVariablesAreRead(t *testing.T) {
	in, _ := readsVariables(t)
	for data, want := range map[string]string{
		`{{ with nomadVar "app/db" }}{{ .user }}:{{ .password }}{{ end }}`:                                                                                  "root:swordfish",
		`{{ (nomadVar "/app/db/").user.Value | toUpper }} {{ (nomadVar " app/db@default.global ").user.Key }}`:                                              "ROOT user",
		`{{ with nomadVar "app/db" }}{{ .Keys }} {{ index .Values 0 }} {{ range .Tuples }}{{ .K }}={{ len .V }} {{ end }}{{ end }}`:                         "[password quoted user] swordfish password=9 quoted=5 user=4 ",
		`{{ with nomadVar "app/web" }}{{ .Metadata }} {{ .Parent.Path }} {{ .port.Parent.ModifyIndex }} {{ .port.Metadata.CreateTime.Time.Year }}{{ end }}`: "app/web app/web 9 2001",
		`{{ nomadVar "app/db" | toJSON }}`:                                                                           `{"password":"swordfish","quoted":"a\"b\nc","user":"root"}`,
		`{{ with nomadVar "app/web" }}{{ .ItemsMap | toJSON }}{{ end }}`:                                             `{"port":"80"}`,
		`{{ with nomadVar "app/web" }}[{{ .none }}{{ .none.Parent }}{{ .none.Metadata }}]{{ end }}`:                  "[<nil><nil>]",
		`{{ if nomadVarExists "app/db" }}yes{{ end }}{{ if nomadVarExists "app/none" }}no{{ end }}`:                  "yes",
		`{{ nomadVarExists "app/db@other" }}{{ nomadVarExists "" }}{{ with nomadVar "" }}x{{ end }}`:                 "falsefalse",
		`{{ range nomadVarList }}{{ . }} {{ end }}{{ range nomadVarList "app/w" }}{{ .Path }}{{ end }}`:              "app/db app/web app/web",
		`{{ range nomadVarListSafe "app" }}{{ .ModifyIndex }} {{ end }}{{ nomadVarList "none" | len }}`:              "7 9 0",
		`{{ nomadVarList "/" | len }}{{ nomadVarList "@other" | len }}{{ nomadVarList "app@default.global" | len }}`: "202",
	} {
		out, err := render(t, in, inline(data))
		require.NoError(t, err, data)
		require.Equal(t, want, string(out.Content), data)
	}
}

func TestVariablesThatCannotBeRead(t *testing.T) {
	in, _ := readsVariables(t)
	for data, want := range map[string]string{
		`{{ nomadVar "a@b@c" }}`:                                      `"a@b@c" is not a variable's path`,
		`{{ nomadVar "app/db@default.eu" }}`:                          `no path to region "eu"`,
		`{{ nomadVar "others/x" }}`:                                   "Permission denied: others/x",
		`{{ nomadVarExists "away" }}`:                                 "not now",
		`{{ nomadVarList "away" }}`:                                   "not now",
		`{{ nomadVarList "a" "b" }}`:                                  "it takes one prefix of paths, or none: there are 2",
		`{{ nomadVar "` + strings.Repeat("p", 129) + `" }}`:           "is longer than a variable's path: at most 128 bytes",
		`{{ nomadVar "a@` + strings.Repeat("n", 129) + `" }}`:         "is longer than a namespace's name: at most 128 bytes",
		`{{ range loop 300 }}{{ nomadVarExists (print .) }}{{ end }}`: "it looks up more than 256 different services and variables",
	} {
		_, err := render(t, in, inline(data))
		require.ErrorContains(t, err, want, data)
	}
	_, err := render(t, in, inline(`{{ nomadVar "others/x" }}`))
	require.NotErrorIs(t, err, template.ErrFile, "it is not tried again")
	_, err = render(t, in, inline(`{{ nomadVar "away" }}`))
	require.ErrorIs(t, err, template.ErrFile, "it is tried again")
	in.Variables = nil
	_, err = render(t, in, inline(`{{ nomadVarList }}`))
	require.ErrorContains(t, err, "no variables can be read here")
}

func TestATemplateMissesVariables(t *testing.T) {
	in, _ := readsVariables(t)
	const data = `{{ with nomadVar "app/late" }}{{ .x }}{{ end }}{{ (nomadVar "b@other").x.Value | mustEnv }}{{ nomadVarListSafe "none" }}{{ nomadVar "app/late" }}`
	out, err := render(t, in, inline(data))
	var missing *template.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"nomad.var.block(app/late@default.global)", "nomad.var.block(b@other.global)"}, missing.What, "up to where it could not go on")
	require.Contains(t, out.Lookups, "variable default/app/late")
	out, err = render(t, in, inline(`{{ nomadVarListSafe "none" }}`))
	require.EqualError(t, err, "Missing: nomad.var.list(none@default.global)")
	require.Contains(t, out.Lookups, "variables default/none")
}

// What is told of a rendering is shown to who may not read the variable.
func TestAnErrorHasNoSecrets(t *testing.T) {
	in, all := readsVariables(t)
	all["app/odd"] = variable("app/odd", 1, nomad.VariableItems{
		"json": `{"word":"swordfish"}`, "long": strings.Repeat("swordfish", 30), "short": "sword", "where": "others/swordfish",
	})
	for data, want := range map[string]string{
		`{{ (nomadVar "app/db").password.Value | parseInt }}`:                                            `local/out:1:40: executing "local/out" at <parseInt>: it fails, and why is not shown`,
		`{{ (parseJSON (nomadVar "app/odd").json.Value).word | parseInt }}`:                              "why is not shown",
		`{{ nomadVar (nomadVar "app/odd").long.Value }}`:                                                 "why is not shown",
		`{{ (nomadVar "app/db").password.Value | file }}`:                                                "why is not shown",
		`{{ $v := nomadVar "app/odd" }}{{ nomadVar $v.where.Value }}`:                                    "Permission denied: …",
		`{{ $v := nomadVar "app/db" }}{{ nomadVar "others/theirs" }}`:                                    "Permission denied: others/theirs",
		`{{ $v := nomadVar "app/odd" }}{{ nomadVar (nomadVar "app/db").password.Value }}`:                "Missing: nomad.var.block(…@default.global)",
		`{{ range loop 1025 }}{{ with nomadVar "app/many" }}{{ end }}{{ end }}{{ nomadVar "others/x" }}`: "why is not shown",
	} {
		many := nomad.VariableItems{}
		for i := range 1025 {
			many[fmt.Sprint("k", i)] = fmt.Sprint("value ", i)
		}
		all["app/many"] = variable("app/many", 1, many)
		_, err := render(t, in, inline(data))
		require.ErrorContains(t, err, want, data)
		require.NotContains(t, err.Error(), "sword", data)
	}
	_, err := render(t, in, inline(`{{ with nomadVar "app/db" }}{{ nomadVar "away" }}{{ end }}`))
	require.ErrorIs(t, err, template.ErrFile, "it is tried again")
	require.ErrorContains(t, err, `variable "away"`)
	envs := inline(`{{ (nomadVar "app/db").password }}`)
	envs.Envvars = ptr(true)
	_, err = render(t, in, envs)
	require.EqualError(t, err, "env: what it renders is not variables: it fails, and why is not shown: it may have a variable's value in it")
}

func TestARenderingTellsWhichVariablesItDependsOn(t *testing.T) {
	in, all := readsVariables(t)
	out, err := render(t, in, inline(`{{ nomadVar "app/db" }}{{ nomadVarExists "app/late" }}{{ nomadVarList "app" }}`))
	require.NoError(t, err)
	require.Len(t, out.Lookups, 3)
	same := func(key string) bool { return in.LookupStamp(t.Context(), key, out.Lookups[key]) == out.Lookups[key] }
	for key := range out.Lookups {
		require.True(t, same(key), key)
	}
	all["app/web"] = variable("app/web", 10, nil)
	require.True(t, same("variable default/app/db"))
	require.False(t, same("variables default/app"))
	all["app/db"] = variable("app/db", 11, nil)
	require.False(t, same("variable default/app/db"))
	require.True(t, same("variable default/app/late"))
	out, err = render(t, in, inline(`{{ nomadVar "app/db" }}{{ nomadVar "away" }}`))
	require.Error(t, err)
	require.True(t, same("variable default/app/db"))
	require.Contains(t, out.Lookups, "variable default/away", "what could not be read is tried again")
	out, err = render(t, in, inline(`{{ nomadVarExists "app/late" }}`))
	require.NoError(t, err)
	all["app/late"] = variable("app/late", 12, nil)
	require.False(t, same("variable default/app/late"))
	in.Variables = nil
	require.True(t, same("variable default/app/db"), "what cannot be asked has not changed")
	require.True(t, same(fmt.Sprintf("variable default/%s", "app/late")))
}
