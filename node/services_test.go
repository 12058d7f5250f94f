package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// listedServices is a control plane's registry that a test looks at.
type listedServices struct {
	mu    sync.Mutex
	have  map[string]*structs.ServiceRegistration
	calls int
	fail  bool
}

func (p *listedServices) do(change func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fail {
		return errors.New("not now")
	}
	change()
	return nil
}

func (p *listedServices) RegisteredServices(context.Context, string) (list []*structs.ServiceRegistration, err error) {
	err = p.do(func() {
		for _, s := range p.have {
			list = append(list, s)
		}
	})
	return list, err
}

func (p *listedServices) RegisterServices(_ context.Context, _ string, services []*structs.ServiceRegistration) error {
	return p.do(func() {
		for _, s := range services {
			p.have[s.ID] = s
		}
	})
}

func (p *listedServices) DeregisterServices(_ context.Context, _ string, ids []string) error {
	return p.do(func() {
		for _, id := range ids {
			delete(p.have, id)
		}
	})
}

func (p *listedServices) FindServices(context.Context, string, string) ([]*structs.ServiceRegistration, error) {
	return nil, errors.New("nobody asks")
}

func (p *listedServices) setFail(fail bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

func (p *listedServices) ids() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.have {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// registered makes a registration of an allocation's task, whose ID is its name.
func registered(alloc, task, id string) *structs.ServiceRegistration {
	return &structs.ServiceRegistration{ID: id, ServiceName: id, AllocID: alloc, Workload: task}
}

// registering runs a registrar whose node has the allocation "here".
func registering(t *testing.T, test func(t *testing.T, r *registrar, p *listedServices), before ...*structs.ServiceRegistration) {
	synctest.Test(t, func(t *testing.T) {
		p := &listedServices{have: map[string]*structs.ServiceRegistration{}}
		for _, s := range before {
			p.have[s.ID] = s
		}
		r := newRegistrar(p, "node", hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { r.run(ctx, func(id string) bool { return id == "here" }) })
		test(t, r, p)
		cancel()
		ended.Wait()
	})
}

func TestWhatAnEarlierAgentRegisteredIsFoundAgain(t *testing.T) {
	web, gone := registered("here", "web", "api"), registered("gone", "web", "old")
	left := registered("here", "db", "sql")
	registering(t, func(t *testing.T, r *registrar, p *listedServices) {
		synctest.Wait()
		require.Equal(t, []string{"api", "sql"}, p.ids(), "what is gone is found by nobody; what may run stays")
		calls := p.calls
		r.Register(web.Owner(), []*structs.ServiceRegistration{web})
		synctest.Wait()
		require.Equal(t, calls, p.calls, "it is registered already")
		r.Register(left.Owner(), nil)
		synctest.Wait()
		require.Equal(t, []string{"api"}, p.ids())
	}, web, gone, left)
}

func TestAnOwnersServicesAreWhatItWantsLast(t *testing.T) {
	owner := structs.TaskServices("here", "web")
	a, b := registered("here", "web", "a"), registered("here", "web", "b")
	other := registered("here", "web-2", "c")
	registering(t, func(t *testing.T, r *registrar, p *listedServices) {
		r.Register(owner, []*structs.ServiceRegistration{a})
		r.Register(other.Owner(), []*structs.ServiceRegistration{other})
		synctest.Wait()
		require.Equal(t, []string{"a", "c"}, p.ids())
		r.Register(owner, []*structs.ServiceRegistration{b})
		synctest.Wait()
		require.Equal(t, []string{"b", "c"}, p.ids())
		require.NoError(t, r.Deregister(t.Context(), owner))
		require.Equal(t, []string{"c"}, p.ids(), "it returns when it is done")
		require.NoError(t, r.Deregister(t.Context(), owner), "there is nothing to wait for")
		require.NoError(t, r.Deregister(t.Context(), other.Owner()))
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Empty(t, r.wanted)
		require.Empty(t, r.have)
		require.Empty(t, r.dirty)
		require.Empty(t, r.done)
	})
}

func TestServicesAreRegisteredWhenTheControlPlaneIsBack(t *testing.T) {
	web, db := registered("here", "web", "api"), registered("here", "db", "sql")
	registering(t, func(t *testing.T, r *registrar, p *listedServices) {
		r.Register(db.Owner(), []*structs.ServiceRegistration{db})
		synctest.Wait()
		p.setFail(true)
		r.Register(web.Owner(), []*structs.ServiceRegistration{web})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, r.Deregister(ctx, db.Owner()), context.DeadlineExceeded)
		require.Equal(t, []string{"sql"}, p.ids())
		p.setFail(false)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"api"}, p.ids())
	})
}

func TestWhatIsLeftIsDeregisteredWhenTheNodeEnds(t *testing.T) {
	web := registered("here", "web", "api")
	p := &listedServices{have: map[string]*structs.ServiceRegistration{}}
	synctest.Test(t, func(t *testing.T) {
		r := newRegistrar(p, "node", hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.run(ctx, func(string) bool { return true })
		}()
		r.Register(web.Owner(), []*structs.ServiceRegistration{web})
		synctest.Wait()
		cancel()
		r.Register(web.Owner(), nil)
		<-done
	})
	require.Empty(t, p.ids())
}
