package conform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// networked is the allocation that networks are made for.
const networked = "00000000-0000-0000-0000-0000000000ff"

// network makes a network for an allocation and destroys it, each twice.
func (r *run) network() {
	create := func(c Call) (string, error) {
		var answer wasmnodev1.DriverCreateNetworkResponse
		c.Op, c.Request = abi.OpDriverCreateNetwork, encode(&wasmnodev1.DriverCreateNetworkRequest{AllocId: networked, Hostname: "host"})
		err := r.ask(c, &answer)
		return answer.Namespace, err
	}
	destroy := func(name string) {
		var answer wasmnodev1.DriverDestroyNetworkResponse
		err := r.ask(Call{Op: abi.OpDriverDestroyNetwork, Request: encode(&wasmnodev1.DriverDestroyNetworkRequest{AllocId: networked}), Fresh: true}, &answer)
		r.done(name, said(abi.OpDriverDestroyNetwork, optional(err)))
	}
	if !r.has(abi.OpDriverCreateNetwork) {
		return
	}
	first, err := create(Call{Fresh: true})
	if err != nil && optional(err) == nil {
		return
	}
	if _, answered := asAnswer(err); answered {
		r.skip("create_network", said("it makes none here", err).Error())
		return
	}
	if err == nil && first != "" && !strings.HasPrefix(first, "/") {
		err = fmt.Errorf("the path of the namespace %q is not absolute", first)
	}
	r.done("create_network", said(abi.OpDriverCreateNetwork, err))
	if err == nil {
		again, err := create(Call{Fresh: true})
		if err == nil && again != first {
			err = errors.New("the same allocation has another namespace the second time")
		}
		r.done("create_network/again", said(abi.OpDriverCreateNetwork, err))
		r.sweep("create_network", func(fail Fault) (int, error) {
			out := r.call(Call{Op: abi.OpDriverCreateNetwork, Request: encode(&wasmnodev1.DriverCreateNetworkRequest{AllocId: networked}), Fail: fail})
			return out.Asked, faultOf(out.Err)
		})
	}
	destroy("destroy_network")
	destroy("destroy_network/again")
}
