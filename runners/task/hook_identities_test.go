package task_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// signer signs nothing, and counts: its tokens have their number and when they expire.
type signer struct {
	ttl map[string]time.Duration // by identity

	mu     sync.Mutex
	made   map[string]int
	last   map[string]string
	broken error
}

func (s *signer) SignIdentity(_ context.Context, of structs.TaskIdentity, name string) (*structs.IdentityToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if s.made == nil {
		s.made, s.last = map[string]int{}, map[string]string{}
	}
	s.made[name]++
	payload := fmt.Sprintf(`{"sub":"%s/%s/%s","jti":"%d"}`, of.AllocID, of.Task, name, s.made[name])
	token := &structs.IdentityToken{}
	if ttl := s.ttl[name]; ttl > 0 {
		token.Expires = time.Now().Add(ttl)
		payload = fmt.Sprintf(`{"exp":%d,%s`, token.Expires.Unix(), payload[1:])
	}
	token.JWT = "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	s.last[name] = token.JWT
	return token, nil
}

// newest is the last token of an identity, and how many there were.
func (s *signer) newest(name string) (token string, made int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[name], s.made[name]
}

func (s *signer) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

func TestATaskHasItsTokens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		s := &signer{}
		f.cfg.Identities = s
		f.task.Env = map[string]string{"NOMAD_TOKEN": "its own"}
		f.task.Identity = &nomad.WorkloadIdentity{Name: "default", Env: true, File: true}
		f.task.Identities = []*nomad.WorkloadIdentity{
			{Name: "a-b", Env: true}, {Name: "file", File: true}, {Name: "there", File: true, Filepath: "/local/deep/token"}, {Name: "unused"},
		}
		tmpl := inline(`{{ env "NOMAD_TOKEN" }}`, "local/rendered")
		f.task.Templates = []*nomad.Template{tmpl}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		for name, made := range map[string]int{"default": 1, "a-b": 1, "file": 1, "there": 1, "unused": 0} {
			_, n := s.newest(name)
			require.Equal(t, made, n, name)
		}
		token, _ := s.newest("default")
		require.Equal(t, token, f.env()["NOMAD_TOKEN"])
		require.Equal(t, token, f.read("web/secrets/nomad_token"))
		require.Equal(t, token, f.read("web/local/rendered"), "templates have it, too")
		named, _ := s.newest("a-b")
		require.Equal(t, named, f.env()["NOMAD_TOKEN_a-b"], "as Nomad has it")
		require.NoFileExists(t, filepath.Join(f.dir.Path(), "web/secrets/nomad_a-b.jwt"))
		filed, _ := s.newest("file")
		require.Equal(t, filed, f.read("web/secrets/nomad_file.jwt"))
		there, _ := s.newest("there")
		require.Equal(t, there, f.read("web/local/deep/token"))
		require.NotContains(t, fmt.Sprint(f.env()), there)
		for _, file := range []string{"web/secrets/nomad_token", "web/secrets/nomad_file.jwt", "web/local/deep/token"} {
			info, err := os.Stat(filepath.Join(f.dir.Path(), file))
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode(), file)
		}
		f.restartAgent()
		settle()
		require.Equal(t, token, f.env()["NOMAD_TOKEN"], "it goes on with what it has")
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		settle()
		again, n := s.newest("default")
		require.Equal(t, 2, n, "a start has a new one")
		require.Equal(t, again, f.env()["NOMAD_TOKEN"])
		require.Equal(t, again, f.read("web/secrets/nomad_token"))
		f.finish()
	})
}

func TestATokenIsRenewedBeforeItExpires(t *testing.T) {
	for _, c := range []struct {
		change string
		events []string
		log    string
	}{
		{change: "noop"}, {change: ""},
		{change: "restart", events: []string{"Restart Signaled: Identity[x]: new token acquired", exit0, "Restarting: Task restarting in 0s", begun}},
		{change: "signal", events: []string{"Signaling: Task being sent signal SIGHUP: Identity[x]: new Identity token acquired"}, log: "signal web SIGHUP"},
	} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil).service()
			s := &signer{ttl: map[string]time.Duration{"x": time.Hour}}
			f.cfg.Identities = s
			w := &nomad.WorkloadIdentity{Name: "x", File: true, TTL: time.Hour, ChangeMode: c.change}
			if c.change == "signal" {
				w.ChangeSignal = "SIGHUP"
			}
			f.task.Identities = []*nomad.WorkloadIdentity{w}
			f.start()
			settle()
			before := f.events()
			time.Sleep(29 * time.Minute)
			synctest.Wait()
			_, n := s.newest("x")
			require.Equal(t, 1, n, "half of its time is not over")
			time.Sleep(17 * time.Minute)
			settle()
			token, n := s.newest("x")
			require.Greater(t, n, 1, "three quarters of it are")
			require.Equal(t, token, f.read("web/secrets/nomad_x.jwt"))
			require.Equal(t, append(before, c.events...), f.events())
			require.Equal(t, c.log != "", strings.Contains(strings.Join(f.world.Log(), "\n"), "signal web SIGHUP"))
			for range 20 {
				time.Sleep(30 * time.Minute)
			}
			token, n = s.newest("x")
			require.Equal(t, token, f.read("web/secrets/nomad_x.jwt"))
			require.GreaterOrEqual(t, n, 13, "it goes on")
			f.finish()
			made := n
			time.Sleep(2 * time.Hour)
			_, n = s.newest("x")
			require.LessOrEqual(t, n, made+1, "nothing is renewed for a task that has ended")
		})
	}
}

// What the files have is when the next token is due, however the agent before has ended.
func TestARestartedAgentRenewsInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		s := &signer{ttl: map[string]time.Duration{"x": time.Hour, "y": time.Hour}}
		f.cfg.Identities = s
		f.task.Identities = []*nomad.WorkloadIdentity{
			{Name: "x", File: true, TTL: time.Hour, ChangeMode: "signal", ChangeSignal: "SIGHUP"}, {Name: "y", Env: true, TTL: time.Hour},
		}
		f.start()
		time.Sleep(61 * time.Minute) // what is stored of the start has expired
		synctest.Wait()
		_, before := s.newest("x")
		require.Greater(t, before, 1)
		f.restartAgent()
		settle()
		_, after := s.newest("x")
		require.Equal(t, before, after, "it was renewed a while ago, which nothing but its file tells")
		f.r.Shutdown()
		<-f.r.WaitCh()
		time.Sleep(3 * time.Hour) // all have expired
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		settle()
		_, late := s.newest("x")
		require.Equal(t, after+1, late, "at once")
		require.Contains(t, f.events()[len(f.events())-1], "Identity[x]: new Identity token acquired")
		f.finish()
	})
}

func TestATokenThatCannotBeSignedIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		s := &signer{ttl: map[string]time.Duration{"x": time.Minute}, broken: errors.New("the key is lost")}
		f.cfg.Identities = s
		f.task.Identities = []*nomad.WorkloadIdentity{{Name: "x", File: true, TTL: time.Minute}}
		f.start()
		synctest.Wait()
		require.Equal(t, "Task hook failed: identity: the key is lost", f.events()[2])
		require.Contains(t, f.events()[3], "Restarting: Task restarting in 10s", "the restart policy tries again")
		s.breaks(nil)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		_, n := s.newest("x")
		require.Equal(t, 1, n)
		s.breaks(errors.New("the key is lost again"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		told := `Task hook failed: identity: "x" is not renewed yet, and is tried again: the key is lost again`
		require.Equal(t, 1, strings.Count(strings.Join(f.events(), "\n"), told), "once")
		s.breaks(nil)
		settle()
		settle()
		token, n := s.newest("x")
		require.Equal(t, 2, n)
		require.Equal(t, token, f.read("web/secrets/nomad_x.jwt"))
		f.finish()
	})
}

// A task may put anything in the place of its files while it runs.
func TestATokenIsWrittenNowhereElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		s := &signer{ttl: map[string]time.Duration{"x": time.Minute, "y": time.Minute}}
		f.cfg.Identities = s
		f.task.Identities = []*nomad.WorkloadIdentity{
			{Name: "x", File: true, TTL: time.Minute}, {Name: "y", File: true, TTL: time.Minute, Filepath: "local/away/y"},
		}
		f.start()
		settle()
		outside := filepath.Join(t.TempDir(), "outside")
		require.NoError(t, os.WriteFile(outside, []byte("kept"), 0o644))
		file := filepath.Join(f.dir.Path(), "web/secrets/nomad_x.jwt")
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Symlink(outside, file))
		away := filepath.Join(f.dir.Path(), "web/local/away")
		require.NoError(t, os.RemoveAll(away))
		require.NoError(t, os.Symlink(filepath.Dir(outside), away))
		time.Sleep(time.Minute)
		synctest.Wait()
		content, err := os.ReadFile(outside)
		require.NoError(t, err)
		require.Equal(t, "kept", string(content))
		require.NoFileExists(t, filepath.Join(filepath.Dir(outside), "y"))
		token, n := s.newest("x")
		require.Greater(t, n, 1)
		require.Equal(t, token, f.read("web/secrets/nomad_x.jwt"), "the link is gone")
		require.Contains(t, strings.Join(f.events(), "\n"), `identity: "y" is not renewed yet, and is tried again: the token cannot be written to local/away/y`)
		f.finish()
	})
}
