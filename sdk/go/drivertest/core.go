package drivertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// core is the node around one plugin of any kind.
type core struct {
	t       T
	records *records
	ops     coreOps

	mu     sync.Mutex
	plugin plugin
	given  string // the configuration, before it was checked
	config []byte // nil: not configured yet
}

// coreOps are the operations that plugins of every kind have.
type coreOps struct {
	describe, configure, fingerprint string
	// schema finds the schema of the plugin's configuration in its description.
	schema func(description []byte) (string, error)
}

// plugin makes instances of a driver.
type plugin interface {
	instance(ctx context.Context, host hostcall.Host) (instance, error)
}

// instance is one driver that exists for one call and its configuration.
type instance interface {
	call(ctx context.Context, operation string, request []byte) ([]byte, error)
	close(ctx context.Context)
}

// FaultError is a call that ended without an answer: the driver panicked, exited,
// trapped, missed its deadline or broke the ABI.
type FaultError struct {
	Operation string
	Cause     error
}

func (e *FaultError) Error() string { return fmt.Sprintf("%s: fault: %v", e.Operation, e.Cause) }

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Cause }

// Call performs one operation on a new, configured instance, from encoded request to
// encoded answer. The methods named after the operations are what one wants; this is
// for requests that they cannot make.
func (n *core) Call(operation string, request []byte) ([]byte, error) {
	return n.call(context.Background(), operation, "", request)
}

func (n *core) call(ctx context.Context, operation, taskID string, request []byte) ([]byte, error) {
	return n.callWith(ctx, &callHost{records: n.records, operation: operation, taskID: taskID, streams: newStreams()}, request)
}

// callWith performs the operation of a host on a new, configured instance.
func (n *core) callWith(ctx context.Context, host *callHost, request []byte) ([]byte, error) {
	defer host.streams.close()
	operation := host.operation
	n.mu.Lock()
	p := n.plugin
	n.mu.Unlock()
	i, err := p.instance(ctx, host)
	if err != nil {
		return nil, err
	}
	defer i.close(ctx)
	if operation != n.ops.describe && operation != n.ops.configure {
		if err := n.configureInstance(ctx, i); err != nil {
			return nil, fmt.Errorf("configure before %s: %w", operation, err)
		}
	}
	return i.call(ctx, operation, request)
}

// configureInstance hands over the configuration in force; before the first
// Configure that is the defaults.
func (n *core) configureInstance(ctx context.Context, i instance) error {
	n.mu.Lock()
	config := n.config
	n.mu.Unlock()
	if config == nil {
		var err error
		if config, err = n.decode(ctx, ""); err != nil {
			return err
		}
	}
	_, err := i.call(ctx, n.ops.configure, configuration(config))
	return err
}

// Configure checks config (JSON; empty: none) against the plugin's schema, applies
// its defaults, and hands it over. From then on every instance gets it.
func (n *core) Configure(config string) error {
	n.t.Helper()
	ctx := context.Background()
	decoded, err := n.decode(ctx, config)
	if err != nil {
		return err
	}
	if _, err := n.call(ctx, n.ops.configure, "", configuration(decoded)); err != nil {
		return err
	}
	n.mu.Lock()
	n.given, n.config = config, decoded
	n.mu.Unlock()
	return nil
}

// decode checks a configuration of the plugin's own and applies defaults.
func (n *core) decode(ctx context.Context, config string) ([]byte, error) {
	schema, err := n.ops.schema(n.describeRaw(ctx))
	if err != nil {
		return nil, err
	}
	return applySchema(schema, []byte(config))
}

// describeRaw returns the encoded description. The test fails when there is none. The
// requests of all kinds of plugins have one encoding.
func (n *core) describeRaw(ctx context.Context) []byte {
	n.t.Helper()
	answer, err := n.describeOnce(ctx)
	if err != nil {
		n.t.Fatalf("drivertest: describe: %v", err)
	}
	return answer
}

// describeOnce is describeRaw, but returns the error.
func (n *core) describeOnce(ctx context.Context) ([]byte, error) {
	request, err := (&wasmnodev1.DriverDescribeRequest{HostVersion: "0.0.0-drivertest"}).MarshalVT()
	if err != nil {
		return nil, err
	}
	return n.call(ctx, n.ops.describe, "", request)
}

// configuration is a configure request, which has one encoding for all kinds of
// plugins.
func configuration(config []byte) []byte {
	// Encoding fails for no value of this type.
	request, _ := (&wasmnodev1.DriverConfigureRequest{Config: config}).MarshalVT()
	return request
}
