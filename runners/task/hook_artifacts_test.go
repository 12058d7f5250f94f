package task_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// fileServer serves files by path and remembers what was asked for. It is made outside of a
// bubble, as what waits for a connection would keep time from going on.
type fileServer struct {
	*httptest.Server
	asked chan string // every request is announced
	over  chan struct{}

	mu    sync.Mutex
	files map[string]string
	paths []string
}

func newFileServer(t *testing.T, files map[string]string) *fileServer {
	s := &fileServer{files: files, asked: make(chan string, 64), over: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { close(s.over); s.Close() })
	return s
}

func (s *fileServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	content, found := s.files[r.URL.Path]
	s.mu.Unlock()
	s.asked <- r.URL.Path
	switch {
	case r.URL.Path == "/stalls":
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-s.over:
		}
	case !found:
		http.NotFound(w, r)
	default:
		_, _ = w.Write([]byte(content))
	}
}

func (s *fileServer) put(path, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = content
}

func (s *fileServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths
}

func fetched(source string, options map[string]string) *nomad.TaskArtifact {
	a := &nomad.TaskArtifact{GetterSource: &source, GetterOptions: options}
	a.Canonicalize()
	return a
}

const downloading = "Downloading Artifacts: Client is downloading artifacts"

func (f *fixture) read(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir.Path(), name))
	require.NoError(f.t, err)
	return string(data)
}

func TestArtifactsAreThereBeforeTheTaskStartsAndFetchedOnce(t *testing.T) {
	twice(t, func(t *testing.T) {
		s := newFileServer(t, map[string]string{"/a": "one", "/b": "two"})
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
			f.task.Env = map[string]string{"PART": "b"}
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/a", nil), fetched(s.URL+"/${PART}", nil)}
			f.start()
			time.Sleep(500 * time.Millisecond)
			require.Equal(t, []string{received, setup, downloading, begun}, f.events())
			require.Equal(t, "one", f.read("web/local/a"))
			require.Equal(t, "two", f.read("web/local/b"))
			f.restartAgent()
			time.Sleep(20 * time.Second)
			require.Equal(t, 2, f.world.Started("web"), "it was restarted")
			f.finish()
		})
		require.Equal(t, []string{"/a", "/b"}, s.requests())
	})
}

func TestAnArtifactThatFailsIsTriedAgainAndEarlierOnesAreNot(t *testing.T) {
	twice(t, func(t *testing.T) {
		s := newFileServer(t, map[string]string{"/a": "one"})
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/a", nil), fetched(s.URL+"/b?token=secret", nil)}
			f.start()
			time.Sleep(5 * time.Second)
			s.put("/b", "two")
			time.Sleep(10 * time.Second)
			require.Equal(t, []string{
				received, setup, downloading,
				`Failed Artifact Download: failed to download artifact "` + s.URL + `/b": bad response code: 404`,
				"Restarting: Task restarting in 10s", downloading, begun,
			}, f.events())
			f.finish()
		})
		require.Equal(t, []string{"/a", "/b", "/b"}, s.requests())
	})
}

func TestAnArtifactThatNeverComesFailsTheTaskByItsPolicy(t *testing.T) {
	twice(t, func(t *testing.T) {
		s := newFileServer(t, map[string]string{"/a": "one"})
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/a", map[string]string{"checksum": "md5:00000000000000000000000000000000"})}
			f.start()
			f.untilDead()
			failed := `Failed Artifact Download: failed to download artifact "` + s.URL +
				`/a": checksum does not match: want 00000000000000000000000000000000, got f97c5d29941bfb1b2fdab0874906ab82`
			require.Equal(t, []string{
				received, setup, downloading, failed, "Restarting: Task restarting in 10s", downloading, failed,
				`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
			}, f.events())
			require.Zero(t, f.world.Started("web"))
			f.finish()
		})
	})
}

func TestAnArtifactThatIsRefusedFailsTheTaskAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.Artifacts = []*nomad.TaskArtifact{fetched("http://127.0.0.1:1/a", nil)}
		*f.task.Artifacts[0].RelativeDest = "${META}/../../db"
		f.start()
		f.untilDead()
		require.Equal(t, []string{
			received, setup, downloading,
			`Failed Artifact Download: failed to download artifact "http://127.0.0.1:1/a": refused: destination "${META}/../../db" is outside the task's directories`,
			"Not Restarting: Error was unrecoverable",
		}, f.events())
		f.finish()
	})
}

func TestAnArtifactIsGivenToTheTasksUser(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	for name, want := range map[string]string{
		"":        "refused: chown: the task has no user",
		"nobody?": `refused: chown: user "nobody?" does not exist on this node`,
		"${ME}":   "",
	} {
		s := newFileServer(t, map[string]string{"/a": "one"})
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.task.User = name
			f.task.Env = map[string]string{"ME": me.Username}
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/a", nil)}
			f.task.Artifacts[0].Chown = true
			f.start()
			time.Sleep(time.Second)
			if want == "" {
				require.Equal(t, []string{received, setup, downloading, begun}, f.events())
			} else {
				require.Equal(t, []string{
					received, setup, downloading, `Failed Artifact Download: failed to download artifact "` + s.URL + `/a": ` + want,
					"Not Restarting: Error was unrecoverable",
				}, f.events())
				require.Empty(t, s.requests())
			}
			f.finish()
		})
	}
}

func TestAKillEndsADownload(t *testing.T) {
	twice(t, func(t *testing.T) {
		s := newFileServer(t, nil)
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/stalls", nil)}
			f.start()
			<-s.asked
			f.r.Kill(nil)
			<-f.r.WaitCh()
			require.Equal(t, []string{received, setup, downloading, killing, killed}, f.events())
			f.finish()
		})
	})
}

func TestAnAgentThatEndsDuringADownloadLeavesItToTheNext(t *testing.T) {
	twice(t, func(t *testing.T) {
		s := newFileServer(t, map[string]string{"/a": "one"})
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			stalls := fetched(s.URL+"/stalls", nil)
			f.task.Artifacts = []*nomad.TaskArtifact{fetched(s.URL+"/a", nil), stalls}
			f.start()
			require.Equal(t, "/a", <-s.asked)
			require.Equal(t, "/stalls", <-s.asked)
			require.NoError(t, os.MkdirAll(filepath.Join(f.dir.Path(), "web/.artifact/left"), 0o700))
			f.restartAgent()
			require.Equal(t, "/stalls", <-s.asked, "what was done stays done")
			f.r.Kill(nil)
			f.finish()
			require.NoDirExists(t, filepath.Join(f.dir.Path(), "web/.artifact"))
		})
	})
}

// untilDead waits, in the bubble's time, for the task to be dead.
func (f *fixture) untilDead() {
	for f.r.State().State != structs.TaskDead {
		time.Sleep(time.Second)
	}
}
