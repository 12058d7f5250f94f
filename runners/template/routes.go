package template

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/go-sockaddr"
)

// routesFile has the kernel's routes of IPv4, the ones that go-sockaddr asks for, in their order.
const routesFile = "/proc/net/route"

// routeGateway is the flag of a route by way of another machine.
const routeGateway = 0x2

// defaultInterface is the interface of the first default route by way of a gateway.
func defaultInterface() (string, error) {
	table, err := os.ReadFile(routesFile)
	if err != nil {
		return "", fmt.Errorf("the machine's routes: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask …
		fields := strings.Fields(line)
		if len(fields) < 8 || strings.Trim(fields[1]+fields[7], "0") != "" {
			continue
		}
		if flags, err := strconv.ParseUint(fields[3], 16, 32); err == nil && flags&routeGateway != 0 {
			return fields[0], nil
		}
	}
	return "", errors.New("the machine has no default route")
}

func defaultAddresses() (sockaddr.IfAddrs, error) {
	name, err := defaultInterface()
	if err != nil {
		return nil, err
	}
	all, err := sockaddr.GetAllInterfaces()
	var of sockaddr.IfAddrs
	for _, a := range all {
		if a.Name == name {
			of = append(of, a)
		}
	}
	return of, err
}

func privateAddresses() (sockaddr.IfAddrs, error) { return reachableAddresses(sockaddr.IncludeIfs) }

func publicAddresses() (sockaddr.IfAddrs, error) { return reachableAddresses(sockaddr.ExcludeIfs) }

// reachableAddresses are those that others may reach and that are private, or are not, with those
// of the default route first.
func reachableAddresses(private func(by, what string, in sockaddr.IfAddrs) (sockaddr.IfAddrs, error)) (sockaddr.IfAddrs, error) {
	all, err := sockaddr.GetAllInterfaces()
	for _, which := range [][2]string{{"type", "ip"}, {"flags", "forwardable"}, {"flags", "up"}} {
		if err == nil {
			all, err = sockaddr.IncludeIfs(which[0], which[1], all)
		}
	}
	if err == nil {
		all, err = sortAddresses("default,type,size", all)
	}
	if err != nil {
		return nil, err
	}
	return private("rfc", "6890", all)
}

// addressOrders are go-sockaddr's orders, but that by the default route.
var addressOrders = map[string]sockaddr.CmpIfAddrFunc{
	"address": sockaddr.AscIfAddress, "-address": sockaddr.DescIfAddress,
	"name": sockaddr.AscIfName, "-name": sockaddr.DescIfName,
	"port": sockaddr.AscIfPort, "-port": sockaddr.DescIfPort,
	"private": sockaddr.AscIfPrivate, "-private": sockaddr.DescIfPrivate,
	"size": sockaddr.AscIfNetworkSize, "-size": sockaddr.DescIfNetworkSize,
	"type": sockaddr.AscIfType, "-type": sockaddr.DescIfType,
}

func sortAddresses(by string, in sockaddr.IfAddrs) (sockaddr.IfAddrs, error) {
	out := append(sockaddr.IfAddrs{}, in...)
	var orders []sockaddr.CmpIfAddrFunc
	for key := range strings.SplitSeq(by, ",") {
		name := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(key)), "+")
		order := addressOrders[name]
		if strings.TrimPrefix(name, "-") == "default" {
			order = byDefaultRoute(strings.HasPrefix(name, "-"))
		}
		if order == nil {
			return nil, fmt.Errorf("unknown sort type: %q", key)
		}
		orders = append(orders, order)
	}
	sockaddr.OrderedIfAddrBy(orders...).Sort(out)
	return out, nil
}

// byDefaultRoute has the addresses of the default route's interface first, or last. Without such a
// route all are alike.
func byDefaultRoute(last bool) sockaddr.CmpIfAddrFunc {
	name, err := defaultInterface()
	first := -1
	if last {
		first = 1
	}
	return func(a, b *sockaddr.IfAddr) int {
		switch {
		case err != nil || (a.Name == name) == (b.Name == name):
			return 0
		case a.Name == name:
			return first
		}
		return -first
	}
}
