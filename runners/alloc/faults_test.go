package alloc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/runners/alloc"
)

func faultsOf(t *testing.T, group string) []string {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Options{Path: "job.hcl", Content: []byte("job \"j\" {\n group \"g\" {\n network {\n port \"http\" {}\n }\n" + group + "\n}\n}")})
	require.NoError(t, err)
	job.Canonicalize()
	return alloc.Faults(job.TaskGroups[0])
}

func TestFaultsAreFoundBeforeAnythingRuns(t *testing.T) {
	require.Empty(t, faultsOf(t, `
		service {
			provider = "nomad"
			port = "http"
			check {
				type = "http"
				path = "/"
				interval = "10s"
				timeout = "2s"
			}
			check {
				type = "script"
				task = "web"
				command = "true"
				interval = "10s"
				timeout = "2s"
			}
		}
		service {
			provider = "nomad"
			check {
				type = "script"
				task = "web"
				command = "true"
				interval = "10s"
				timeout = "2s"
			}
		}
		service {
			name = "by number"
			provider = "nomad"
			port = "8080"
		}
		service {
			name = "by reference"
			provider = "nomad"
			port = "${NOMAD_HOST_PORT_http}"
		}
		task "web" {
			driver = "mock"
			artifact {
				source = "${meta.mirror}/app.zip"
			}
			artifact {
				source = "git::https://example.com/repo"
			}
			template {
				data = "{{ env \"A\" }}"
				destination = "local/a"
				change_mode = "signal"
				change_signal = "hup"
			}
		}`))
	require.Equal(t, []string{
		`service "j-g": provider: "consul" is not supported: use "nomad"`,
		`service "j-g": check "": type: "grpc" is not supported: checks are tcp, http or script`,
		`service "j-g": check "of nobody": task: the group has no task "db"`,
		`service "two": connect is not supported`,
		`task "web": artifact 2: source: "/etc/passwd" is not fetched: addresses are http://, https:// and git::, and local files are none`,
		`task "web": template 1: function "secret" is not supported: it reads from Vault, which there is none of here`,
		`task "web": template 2: change_signal: unknown signal "SIGNO"`,
		`task "web": service "j-g-web": port: the group has no port "db"`,
		`task "web": service "j-g-web": check "up": port: the group has no port "db"`,
	}, faultsOf(t, `
		service {
			port = "http"
			check {
				type = "grpc"
				command = "true"
				interval = "10s"
				timeout = "2s"
			}
			check {
				name = "of nobody"
				type = "script"
				task = "db"
				command = "true"
				interval = "10s"
				timeout = "2s"
			}
		}
		service {
			name = "two"
			provider = "nomad"
			connect {
				native = true
			}
		}
		task "web" {
			driver = "mock"
			artifact {
				source = "https://example.com/a"
			}
			artifact {
				source = "/etc/passwd"
			}
			template {
				data = "{{ with secret \"a\" }}{{ end }}"
				destination = "local/a"
			}
			template {
				data = "x"
				destination = "local/a"
				change_mode = "signal"
				change_signal = "SIGNO"
			}
			service {
				provider = "nomad"
				port = "db"
				check {
					name = "up"
					type = "tcp"
					interval = "10s"
					timeout = "2s"
				}
			}
		}`))
}
