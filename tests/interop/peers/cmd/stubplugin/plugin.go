package main

import (
	"errors"
	"flag"
	"sync"

	"github.com/containerd/nri/pkg/stub"
)

// What only some versions can, and nil in the others. The files with build tags fill it in.
var (
	declaring  func(*plugin) stub.Option
	evicting   func(*plugin) stub.Option
	validating func(*plugin) any
)

// plugin is what all versions share; how the stub calls it is in the files with build tags.
type plugin struct {
	stub    stub.Stub
	lock    sync.Mutex
	closing sync.Once
	gone    chan struct{}

	// Names of events.
	callBack, refuse, die, hang string
	declared                    policy
	validates, shows            bool
	adjust                      changes
	updateIn, evictIn           targets
	// Evictions that go with the next update that the plugin asks for by itself.
	unasked []target
}

// policy is what a plugin may declare about its failures.
type policy struct{ failRequest, keepConnected bool }

func newPlugin(flags *flag.FlagSet) *plugin {
	p := &plugin{gone: make(chan struct{}), updateIn: targets{}, evictIn: targets{}}
	flags.StringVar(&p.callBack, "call-back", "", "`event` in which to ask for an update of its container")
	flags.StringVar(&p.refuse, "refuse", "", "`event` to answer with an error")
	flags.StringVar(&p.die, "die", "", "`event` in which to end without a word")
	flags.StringVar(&p.hang, "hang", "", "`event` that is never answered")
	flags.BoolVar(&p.declared.failRequest, "fail-request", false, "declare that requests fail with this plugin")
	flags.BoolVar(&p.declared.keepConnected, "keep-connected", false, "declare that this plugin is to be kept")
	flags.BoolVar(&p.validates, "validate", false, "validate, and reject if the pod has the annotation stubplugin/reject")
	flags.BoolVar(&p.shows, "show", false, "write down more of a container than its id")
	flags.Var(&p.adjust, "adjust", "`change` to containers that are created, as env=NAME=VALUE or env=-NAME")
	flags.Var(p.updateIn, "update", "update in a reply, as `event:container=shares`")
	flags.Var(p.evictIn, "evict", "eviction in a reply, as `event:container=reason`")
	return p
}

// handlers is what the stub looks at to see what to subscribe to.
func (p *plugin) handlers() (any, error) {
	switch {
	case !p.validates:
		return p, nil
	case validating == nil:
		return nil, errors.New("this version of the stub cannot validate")
	default:
		return validating(p), nil
	}
}

func (p *plugin) options() ([]stub.Option, error) {
	var options []stub.Option
	if p.declared != (policy{}) {
		if declaring == nil {
			return nil, errors.New("this version of the stub cannot declare anything about failures")
		}
		options = append(options, declaring(p))
	}
	if evicting != nil {
		options = append(options, evicting(p))
	} else if len(p.evictIn) > 0 {
		return nil, errors.New("this version of the stub cannot be made to evict")
	}
	return options, nil
}
