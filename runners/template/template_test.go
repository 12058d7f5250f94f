package template_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
)

func ptr[T any](v T) *T { return &v }

// input is a task's directory and environment.
func input(t *testing.T, env map[string]string) template.Input {
	t.Helper()
	d := allocdir.New(t.TempDir(), "a1")
	require.NoError(t, d.Build())
	dir, err := d.Task("web")
	require.NoError(t, err)
	require.NoError(t, dir.Build())
	task := &nomad.Task{Name: "web", Env: env}
	built := taskenv.NewBuilder(&structs.Node{
		Name: "n1", Datacenter: "dc1", Meta: map[string]string{"rack": "r1"}, Attributes: map[string]string{"kernel.name": "linux"},
	}, &structs.Allocation{ID: "a1"}, task).SetDirs(taskenv.IsolatedDirs).Build()
	return template.Input{Dir: dir, Env: built}
}

func inline(data string) *nomad.Template {
	return &nomad.Template{EmbeddedTmpl: &data, DestPath: ptr("local/out")}
}

func render(t *testing.T, in template.Input, block *nomad.Template) (*template.Output, error) {
	t.Helper()
	tmpl, err := template.New(block)
	require.NoError(t, err)
	return renderOnFakeClock(t, tmpl, in)
}

// renderAny renders what may not be a template at all.
func renderAny(t *testing.T, in template.Input, data string) (string, error) {
	t.Helper()
	tmpl, err := template.New(inline(data))
	if err != nil {
		return "", err
	}
	out, err := renderOnFakeClock(t, tmpl, in)
	return string(out.Content), err
}

func TestFunctions(t *testing.T) {
	in := input(t, map[string]string{"NAME": "web", "JSON": `{"a":[1,2],"b":{"c":"x"}}`})
	require.NoError(t, os.WriteFile(filepath.Join(in.Dir.Secrets, "key"), []byte("k1"), 0o600))
	for data, want := range map[string]string{
		`plain`:                              "plain",
		`{{ env "NAME" }}-{{ env "NONE" }}.`: "web-.",
		`{{ envOrDefault "NONE" "x" }}`:      "x",
		`{{ mustEnv "NAME" }}`:               "web",
		`{{ env "NOMAD_TASK_DIR" }}`:         "/local",
		`{{ file "secrets/key" }}`:           "k1",
		`{{ file "/secrets/key" }}`:          "k1",
		`{{ with $c := "a,b" | split "," }}{{ range $c }}[{{ . }}]{{ end }}{{ end }}`:                       "[a][b]",
		`{{ split "," "a,b" | join "-" }}`:                                                                  "a-b",
		`{{ "aXb" | replaceAll "X" "--" }}`:                                                                 "a--b",
		`{{ toUpper "a" }}{{ toLower "B" }}{{ toTitle "go on" }}`:                                           "AbGo On",
		`{{ trimSpace " a " }}{{ "xax" | trim "x" }}{{ "ab" | trimPrefix "a" }}{{ "ab" | trimSuffix "b" }}`: "aaba",
		`{{ "a\nb\n" | indent 2 }}`:                                                                         "  a\n  b\n",
		`{{ if "v1.2" | regexMatch "^v[0-9]" }}yes{{ end }}`:                                                "yes",
		`{{ "a1b22" | regexReplaceAll "[0-9]+" "<$0>" }}`:                                                   "a<1>b<22>",
		`{{ base64Encode "hi" }} {{ base64Decode "aGk=" }}`:                                                 "aGk= hi",
		`{{ sha256Hex "" | printf "%.8s" }}`:                                                                "e3b0c442",
		`{{ with env "JSON" | parseJSON }}{{ .b.c }}{{ index .a 1 }}{{ end }}`:                              "x2",
		`{{ env "JSON" | parseJSON | toJSON }}`:                                                             `{"a":[1,2],"b":{"c":"x"}}`,
		`{{ parseJSON "[1]" | toJSONPretty }}`:                                                              "[\n  1\n]",
		`{{ range loop 3 }}{{ . }}{{ end }}{{ range loop 5 7 }}{{ . }}{{ end }}`:                            "01256",
		`{{ range $i, $e := loop 5 7 }}{{ $i }}={{ $e }} {{ end }}{{ range loop 0 }}x{{ end }}`:             "0=5 1=6 ",
		`{{ env "node.unique.name" }} {{ env "meta.rack" }} {{ mustEnv "attr.kernel.name" }}`:               "n1 r1 linux",
		`{{ envOrDefault "meta.none" "x" }}{{ env "node.datacenter" }}`:                                     "xdc1",
		`{{ range 3 }}{{ . }}{{ end }}`:                                                                     "012",
		`{{ 5 | subtract 2 }} {{ add 1 2 }} {{ 7 | divide 2 }} {{ 7 | modulo 4 }} {{ multiply 2 1.5 }}`:     "3 3 3 3 3",
		`{{ parseInt "7" | add 1 }} {{ parseBool "true" }} {{ parseFloat "1.5" }}`:                          "8 true 1.5",
		`{{ if contains "b" (split "," "a,b") }}in{{ end }}`:                                                "in",
		`{{ if in (split "," "a,b") "c" }}in{{ else }}out{{ end }}`:                                         "out",
		`{{ printf "%05d|%-4s|%q" 7 "a" "b" }}`:                                                             `00007|a   |"b"`,
		`{{ define "x" }}<{{ . }}>{{ end }}{{ template "x" "a" }}`:                                          "<a>",
		`{{ (parseJSON "{}").missing }}`:                                                                    "<no value>",
		`{{ range $i, $v := split "," "a,b" }}{{ if $i }}{{ continue }}{{ end }}{{ $v }}{{ end }}`:          "a",
	} {
		out, err := render(t, in, inline(data))
		require.NoError(t, err, data)
		require.Equal(t, want, string(out.Content), data)
	}
	out, err := render(t, in, inline(`{{ timestamp }} {{ timestamp "unix" }} {{ timestamp "2006" }}`))
	require.NoError(t, err)
	require.Regexp(t, `^20\d\d-\d\d-\d\dT\S+Z \d+ 20\d\d$`, string(out.Content))
}

// What is made of a file in secrets/ is as secret as that: another template may have put a variable there.
func TestWhatIsMadeOfASecretFileIsSecret(t *testing.T) {
	in := input(t, nil)
	for _, name := range []string{"secrets/db", "local/db", "local/secrets"} {
		require.NoError(t, os.WriteFile(filepath.Join(in.Dir.Path, name), []byte("hunter22"), 0o600))
	}
	for data, secret := range map[string]bool{
		`A={{ file "secrets/db" }}`: true, `A={{ file "/secrets/db" }}`: true, `A={{ file "local/../secrets/db" }}`: true,
		`A={{ file "local/db" }}`: false, `A={{ file "local/secrets" }}`: false, `A=1`: false,
	} {
		block := inline(data)
		block.Envvars = ptr(true)
		out, err := render(t, in, block)
		require.NoError(t, err, data)
		require.Equal(t, secret, out.Secret, data)
	}
}

func TestATemplatesOptions(t *testing.T) {
	in := input(t, map[string]string{"NAME": "web"})
	require.NoError(t, os.WriteFile(filepath.Join(in.Dir.Local, "web.tpl"), []byte(`[[ env "NAME" ]] {{ kept }}`), 0o600))
	block := &nomad.Template{SourcePath: ptr("local/${NAME}.tpl"), DestPath: ptr("${NOMAD_SECRETS_DIR}/deep/${NAME}.conf"), Perms: ptr("600"), LeftDelim: ptr("[["), RightDelim: ptr("]]")}
	tmpl, err := template.New(block)
	require.NoError(t, err)
	out, err := tmpl.Render(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"local/web.tpl": template.Stamp(in.Dir, "local/web.tpl")}, out.Files)
	require.Nil(t, tmpl.Current(in))
	require.NoError(t, tmpl.Write(in, out.Content))
	path := filepath.Join(in.Dir.Secrets, "deep/web.conf")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "web {{ kept }}", string(data))
	require.Equal(t, data, tmpl.Current(in))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())

	require.NoError(t, tmpl.Write(in, []byte("again")))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside the file")

	missing := inline(`{{ (parseJSON "{}").missing }}`)
	missing.ErrMissingKey = ptr(true)
	_, err = render(t, in, missing)
	require.ErrorContains(t, err, `map has no entry for key "missing"`)

	if os.Getuid() == 0 {
		owned := inline("x")
		owned.Uid, owned.Gid = ptr(1234), ptr(5678)
		tmpl, err := template.New(owned)
		require.NoError(t, err)
		require.NoError(t, tmpl.Write(in, nil))
		info, err := os.Stat(filepath.Join(in.Dir.Local, "out"))
		require.NoError(t, err)
		require.EqualValues(t, 1234, info.Sys().(*syscall.Stat_t).Uid)
	}
}

func TestVariables(t *testing.T) {
	in := input(t, map[string]string{"NAME": "web"})
	block := inline("# who\nWHO={{ env \"NAME\" }}\nexport Q=\"a b\"\n")
	block.Envvars = ptr(true)
	out, err := render(t, in, block)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"WHO": "web", "Q": "a b"}, out.Env)
	block = inline("no variable")
	block.Envvars = ptr(true)
	_, err = render(t, in, block)
	require.EqualError(t, err, "env: what it renders is not variables: error on line 1: missing =")
}

func TestWhatIsRefused(t *testing.T) {
	change := func(fn func(*nomad.Template)) *nomad.Template {
		b := inline("x")
		fn(b)
		return b
	}
	for want, block := range map[string]*nomad.Template{
		"neither source nor data":    {DestPath: ptr("local/x")},
		"both source and data":       change(func(b *nomad.Template) { b.SourcePath = ptr("x") }),
		"destination: it is missing": change(func(b *nomad.Template) { b.DestPath = nil }),
		`change_script: it has to have a command when change_mode is "script"`: change(func(b *nomad.Template) { b.ChangeMode = ptr("script") }),
		`change_script: timeout: it has to be positive: it is 0s`: change(func(b *nomad.Template) {
			b.ChangeMode, b.ChangeScript = ptr("script"), &nomad.ChangeScript{Command: ptr("x"), Timeout: ptr(time.Duration(0))}
		}),
		`"often" is none of noop`:      change(func(b *nomad.Template) { b.ChangeMode = ptr("often") }),
		"does not bring new variables": change(func(b *nomad.Template) { b.ChangeMode, b.Envvars = ptr("signal"), ptr(true) }),
		`change_script: it is run with change_mode = "script" only: the change_mode is "restart"`: change(func(b *nomad.Template) { b.ChangeScript = &nomad.ChangeScript{} }),
		"splay: it can't be negative":      change(func(b *nomad.Template) { b.Splay = ptr(-time.Second) }),
		`perms: "rw" is not a file mode`:   change(func(b *nomad.Template) { b.Perms = ptr("rw") }),
		`perms: "4755" is not a file mode`: change(func(b *nomad.Template) { b.Perms = ptr("4755") }),
		"uid: it can't be negative":        change(func(b *nomad.Template) { b.Uid = ptr(-2) }),
		"wait: min 5s is greater than max 4.999999999s": change(func(b *nomad.Template) {
			b.Wait = &nomad.WaitConfig{Min: ptr(5 * time.Second), Max: ptr(5*time.Second - 1)}
		}),
		"wait: it can't be negative: min is -1ns":                                            change(func(b *nomad.Template) { b.Wait = &nomad.WaitConfig{Min: ptr(time.Duration(-1))} }),
		"wait: it can't be negative: min is 0s":                                              change(func(b *nomad.Template) { b.Wait = &nomad.WaitConfig{Max: ptr(time.Duration(-1))} }),
		"delimiter go together":                                                              change(func(b *nomad.Template) { b.LeftDelim = ptr("[[") }),
		`local/out:1: unclosed action`:                                                       inline("{{ env"),
		`local/out:2: function "nosuch" not defined`:                                         inline("\n{{ nosuch }}"),
		`function "key" is not supported: it reads from Consul, which there is none of here`: inline(`{{ key "a" }}`),
		`function "secret" is not supported: it reads from Vault`:                            inline(`{{ with secret "a" }}{{ . }}{{ end }}`),
		`function "key" is not supported`:                                                    inline(`{{ if true }}{{ range 2 }}{{ (key "a").b | toUpper }}{{ end }}{{ end }}`),
		`function "service" is not supported`:                                                inline(`{{ define "x" }}{{ service "a" }}{{ end }}`),
		`error calling plugin: function is disabled`:                                         inline(`{{ template "x" (plugin "a") }}{{ define "x" }}{{ end }}`),
		`template "x" calls itself`:                                                          inline(`{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`),
		"bytes, more than":                                                                   inline(strings.Repeat("x", 1<<20+1)),
	} {
		_, err := template.New(block)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "template: ")
	}
}

func TestATemplateReadsAndWritesNothingOutsideTheTasksDirectories(t *testing.T) {
	in := input(t, nil)
	outside := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(outside, []byte("hidden"), 0o644))
	require.NoError(t, os.Symlink(outside, filepath.Join(in.Dir.Local, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(in.Dir.Local, "dir")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(in.Dir.Local, "pipe"), 0o600))
	for name, want := range map[string]string{
		outside: "no such file", "local/link": "escapes", "local/../../../x": "outside the task's directories",
		"local": "not a regular file", "local/pipe": "not a regular file", "local/none": "no such file",
	} {
		out, err := render(t, in, inline(`{{ file "`+name+`" }}`))
		require.ErrorContains(t, err, want, name)
		require.Contains(t, out.Files, name, "it may appear")
		require.NotContains(t, err.Error(), in.Dir.Path)
	}
	_, err := render(t, in, inline(`{{ file "local/none" }}`))
	require.ErrorIs(t, err, template.ErrFile)
	for dest, want := range map[string]string{
		"../other/x": "outside the task's directories", "local/dir/x": "escapes", "local": "file exists", "local/link/x": "escapes",
	} {
		block := inline("x")
		block.DestPath = &dest
		tmpl, err := template.New(block)
		require.NoError(t, err)
		require.ErrorContains(t, tmpl.Write(in, []byte("x")), want, dest)
	}
	block := inline("x")
	block.DestPath = ptr("local/link") // the link is replaced, not what it leads to
	tmpl, err := template.New(block)
	require.NoError(t, err)
	require.NoError(t, tmpl.Write(in, []byte("x")))
	data, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "hidden", string(data))
}

func TestHostileTemplatesEnd(t *testing.T) {
	in := input(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(in.Dir.Local, "large"), make([]byte, 1<<20+1), 0o600))
	laughs := `{{ define "t0" }}{{ end }}`
	for i := 1; i < 60; i++ {
		laughs += fmt.Sprintf(`{{ define "t%d" }}{{ template "t%d" }}{{ template "t%d" }}{{ end }}`, i, i-1, i-1)
	}
	double := `{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range loop 64 }}{{ $x = `
	for data, want := range map[string]string{
		`{{ range 1000000000000 }}{{ end }}`:                                                             "",
		`{{ range loop 1000000000000 }}{{ end }}`:                                                        "makes more than",
		`{{ range loop -9223372036854775807 9223372036854775807 }}{{ end }}`:                             "makes more than",
		laughs + `{{ template "t59" }}`:                                                                  "",
		`{{ range 1000000 }}0123456789012345{{ end }}`:                                                   "renders more than",
		double + `printf "%s%s" $x $x }}{{ end }}`:                                                       "makes more than",
		double + `print $x $x }}{{ end }}`:                                                               "makes more than",
		double + `html $x $x }}{{ end }}`:                                                                "makes more than",
		double + `replaceAll "a" "aaaa" $x }}{{ end }}`:                                                  "makes more than",
		double + `base64Encode $x }}{{ end }}`:                                                           "makes more than",
		double + `toJSON (print $x "\"\"") }}{{ end }}`:                                                  "makes more than",
		`{{ printf "%1000000d" 1 }}`:                                                                     "up to three digits",
		`{{ printf "%*d" 1000000 1 }}`:                                                                   "up to three digits",
		`{{ printf "` + strings.Repeat("%999d", 100000) + `" 1 }}`:                                       "makes more than",
		`{{ indent 1000000 "a" }}`:                                                                       "it takes 0 to 999",
		`{{ "` + strings.Repeat("a", 100000) + `" | regexReplaceAll "(a*b)?" "x" }}`:                     "too long for this expression",
		`{{ parseJSON "` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `" | toJSONPretty }}`: "makes more than",
		`{{ file "local/large" }}`:                                                                       "more than 1048576 bytes",
		`{{ divide 0 1 }}`:                                                                               "division by zero",
		`{{ mustEnv "NONE" }}`:                                                                           `no variable "NONE"`,
	} {
		tmpl, err := template.New(inline(data))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, context.Canceled)
		if want == "" {
			_, err = tmpl.Render(ctx, in)
			require.ErrorIs(t, err, context.Canceled)
		} else {
			_, err = renderOnFakeClock(t, tmpl, in)
			require.ErrorContains(t, err, want)
			require.Less(t, len(err.Error()), 600)
		}
		cancel()
	}
	deep, err := template.New(inline(strings.Repeat("{{if 1}}", 60000) + "x" + strings.Repeat("{{end}}", 60000)))
	require.NoError(t, err)
	out, err := renderOnFakeClock(t, deep, in)
	require.NoError(t, err)
	require.Equal(t, "x", string(out.Content))
}

// renderOnFakeClock renders on a clock that stands still while there is work: on a busy machine
// the time that a rendering has may be over before what it is about has happened.
func renderOnFakeClock(t *testing.T, tmpl *template.Template, in template.Input) (out *template.Output, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { out, err = tmpl.Render(t.Context(), in) })
	return out, err
}

func TestAStampShowsAChangedFile(t *testing.T) {
	in := input(t, nil)
	path := filepath.Join(in.Dir.Local, "f")
	none := template.Stamp(in.Dir, "local/f")
	require.NoError(t, os.WriteFile(path, []byte("a"), 0o600))
	first := template.Stamp(in.Dir, "local/f")
	require.NotEqual(t, none, first)
	require.Equal(t, first, template.Stamp(in.Dir, "local/f"))
	require.NoError(t, os.WriteFile(path+".new", []byte("b"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	require.NotEqual(t, first, template.Stamp(in.Dir, "local/f"))
}
