// Merger lets Go's adaptation merge replies that are given to it: a question as a line of JSON in, its answer as a line of
// JSON out, messages encoded and in base64. The plugins are built in and reply what they are told to. A validator, built in
// too, witnesses the owners: they are shown to nobody else.
//
//	{"op":"CreateContainer","request":…,"replies":[{"plugin":"10-a","reply":…},…]}
//	    {"response":…,"owners":…,"seen":[…]}   what each plugin that was asked has seen
//	    {"error":"…","seen":[…]}
//	{…,"repeat":N}
//	    the same N times, as one line of figures: see measure.go
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/proto"
)

const nowhere = "/nonexistent" // a directory without plugins

func main() {
	nrilog.Set(silence{})
	runtimes := map[string]*runtime{}
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for {
		var q question
		err := questions.Decode(&q)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		answer, err := respond(runtimes, &q)
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

type question struct {
	Op      string  `json:"op"`
	Request []byte  `json:"request"`
	Replies []reply `json:"replies"`
	Repeat  int     `json:"repeat"`
}

type reply struct {
	Plugin string `json:"plugin"`
	Reply  []byte `json:"reply"`
}

type answer struct {
	Response []byte   `json:"response"`
	Owners   []byte   `json:"owners"`
	Error    string   `json:"error"`
	Seen     [][]byte `json:"seen"`
}

func respond(runtimes map[string]*runtime, q *question) (any, error) {
	r, err := runtimeFor(runtimes, q)
	if err != nil {
		return nil, err
	}
	if q.Repeat > 0 {
		return measure(r, q)
	}
	asked, err := read(q)
	if err != nil {
		return nil, err
	}
	r.answer, r.replies = &answer{}, asked.replies
	response, err := r.relay(asked.request)
	if err != nil {
		r.answer.Error = err.Error()
		return r.answer, nil
	}
	r.answer.Response = encode(response)
	return r.answer, nil
}

// asked is a question whose messages were read.
type asked struct {
	request proto.Message
	replies []proto.Message
}

func read(q *question) (asked, error) {
	request, _, err := messages(q.Op)
	if err != nil {
		return asked{}, err
	}
	if err := proto.Unmarshal(q.Request, request); err != nil {
		return asked{}, err
	}
	a := asked{request: request}
	for _, given := range q.Replies {
		_, reply, _ := messages(q.Op)
		if err := proto.Unmarshal(given.Reply, reply); err != nil {
			return asked{}, fmt.Errorf("reply of %s: %w", given.Plugin, err)
		}
		a.replies = append(a.replies, reply)
	}
	return a, nil
}

func messages(op string) (request, reply proto.Message, err error) {
	switch op {
	case "CreateContainer":
		return &api.CreateContainerRequest{}, &api.CreateContainerResponse{}, nil
	case "UpdateContainer":
		return &api.UpdateContainerRequest{}, &api.UpdateContainerResponse{}, nil
	case "StopContainer":
		return &api.StopContainerRequest{}, &api.StopContainerResponse{}, nil
	default:
		return nil, nil, fmt.Errorf("nothing is merged for %q", op)
	}
}

// runtime is an adaptation with its plugins. They reply what is in replies, each in its place.
type runtime struct {
	nri       *adaptation.Adaptation
	witnesses bool // what is seen and owned is kept in answer
	replies   []proto.Message
	answer    *answer
}

// runtimeFor finds or makes the runtime with these plugins: to make one takes longer than to merge.
func runtimeFor(runtimes map[string]*runtime, q *question) (*runtime, error) {
	var names []string
	for _, reply := range q.Replies {
		names = append(names, reply.Plugin)
	}
	witnesses := q.Repeat == 0
	key := fmt.Sprint(witnesses, names)
	if r, ok := runtimes[key]; ok {
		return r, nil
	}
	r := &runtime{witnesses: witnesses}
	var plugins []*builtin.BuiltinPlugin
	if witnesses {
		plugins = append(plugins, r.witness())
	}
	for place, name := range names {
		plugin, err := r.plugin(place, name)
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, plugin)
	}
	nri, err := adaptation.New("merger", "v0.0.0", synchronize, update,
		adaptation.WithPluginPath(nowhere),
		adaptation.WithPluginConfigPath(nowhere),
		adaptation.WithDisabledExternalConnections(),
		adaptation.WithBuiltinPlugins(plugins...),
	)
	if err != nil {
		return nil, err
	}
	r.nri, runtimes[key] = nri, r
	return r, nri.Start()
}

func (r *runtime) plugin(place int, name string) (*builtin.BuiltinPlugin, error) {
	index, base, err := api.ParsePluginName(name)
	if err != nil {
		return nil, err
	}
	return &builtin.BuiltinPlugin{Index: index, Base: base, Handlers: builtin.BuiltinHandlers{
		CreateContainer: func(_ context.Context, q *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return r.say(place, q).(*api.CreateContainerResponse), nil
		},
		UpdateContainer: func(_ context.Context, q *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			return r.say(place, q).(*api.UpdateContainerResponse), nil
		},
		StopContainer: func(_ context.Context, q *api.StopContainerRequest) (*api.StopContainerResponse, error) {
			return r.say(place, q).(*api.StopContainerResponse), nil
		},
	}}, nil
}

func (r *runtime) say(place int, seen proto.Message) proto.Message {
	if r.witnesses {
		r.answer.Seen = append(r.answer.Seen, encode(seen))
	}
	return r.replies[place]
}

func (r *runtime) witness() *builtin.BuiltinPlugin {
	return &builtin.BuiltinPlugin{Index: "99", Base: "witness", Handlers: builtin.BuiltinHandlers{
		ValidateContainerAdjustment: func(_ context.Context, q *api.ValidateContainerAdjustmentRequest) error {
			r.answer.Owners = encode(q.GetOwners())
			return nil
		},
	}}
}

func (r *runtime) relay(request proto.Message) (proto.Message, error) {
	ctx := context.Background()
	switch request := request.(type) {
	case *api.CreateContainerRequest:
		return r.nri.CreateContainer(ctx, request)
	case *api.UpdateContainerRequest:
		return r.nri.UpdateContainer(ctx, request)
	case *api.StopContainerRequest:
		return r.nri.StopContainer(ctx, request)
	default:
		return nil, fmt.Errorf("nothing is merged for %T", request)
	}
}

func encode(message proto.Message) []byte {
	encoded, err := proto.Marshal(message)
	if err != nil {
		log.Fatal(err)
	}
	return encoded
}

func synchronize(ctx context.Context, deliver adaptation.SyncCB) error {
	_, err := deliver(ctx, nil, nil)
	return err
}

func update(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
	return nil, nil
}

// silence keeps the log out of the answers, and of what is measured.
type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
