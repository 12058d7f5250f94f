package main

import (
	"fmt"
	"strings"
)

// registry has every command by its words, a space between them. It is filled a group a
// function, and an assignment a line: two branches that add commands seldom conflict.
type registry map[string]subcommand

// commands are all that there are.
func commands(m meta) registry {
	r := registry{}
	r.words(m)
	r.acl(m)
	r.alloc(m)
	r.deployment(m)
	r.eval(m)
	r.job(m)
	r.namespace(m)
	r.node(m)
	r.operator(m)
	r.plugin(m)
	r.scaling(m)
	r.server(m)
	r.service(m)
	r.system(m)
	r.variables(m)
	r.volume(m)
	r.enterprise(m)
	r.refused(m)
	return r
}

// aliases are the words that the stock command line keeps for what has another name now.
var aliases = map[string]string{
	"action":             "job action",
	"alloc-status":       "alloc status",
	"client-config":      "node config",
	"eval-status":        "eval status",
	"exec":               "alloc exec",
	"fs":                 "alloc fs",
	"init":               "job init",
	"inspect":            "job inspect",
	"logs":               "alloc logs",
	"node-drain":         "node drain",
	"node-status":        "node status",
	"plan":               "job plan",
	"run":                "job run",
	"server-force-leave": "server force-leave",
	"server-join":        "server join",
	"server-members":     "server members",
	"start":              "job start",
	"stop":               "job stop",
	"validate":           "job validate",
}

// group adds a word that only other commands follow.
func (r registry) group(m meta, name, synopsis string) { r[name] = &groupCommand{m, name, synopsis} }

func (r registry) words(m meta) {
	r["agent"] = &agentCommand{m}
	r["agent-info"] = &agentInfoCommand{m}
	r.group(m, "config", "Files of an agent's configuration")
	r["config validate"] = &configValidateCommand{m}
	r["doctor"] = &doctorCommand{m}
	r["fmt"] = &fmtCommand{m}
	r["monitor"] = &monitorCommand{m}
	r["monitor export"] = &monitorExportCommand{m}
	r["status"] = &statusCommand{m}
	r["supervisor"] = &supervisorCommand{m}
	r["ui"] = &uiCommand{m}
	r["version"] = &versionCommand{m}
}

func (r registry) acl(m meta) {
	r.group(m, "acl", "Access: who may use the API")
	r["acl bootstrap"] = &aclBootstrapCommand{m}
	r.group(m, "acl policy", "Policies: what tokens may do")
	r["acl policy apply"] = &aclPolicyApplyCommand{m}
	r["acl policy delete"] = &aclPolicyDeleteCommand{m}
	r["acl policy info"] = &aclPolicyInfoCommand{m}
	r["acl policy list"] = &aclPolicyListCommand{m}
	r["acl policy self"] = &aclPolicySelfCommand{m}
	r.group(m, "acl role", "Roles: policies that tokens have together")
	r["acl role create"] = &aclRoleCreateCommand{m}
	r["acl role delete"] = &aclRoleDeleteCommand{m}
	r["acl role info"] = &aclRoleInfoCommand{m}
	r["acl role list"] = &aclRoleListCommand{m}
	r["acl role update"] = &aclRoleUpdateCommand{m}
	r.group(m, "acl token", "Tokens: what lets somebody in")
	r["acl token create"] = &aclTokenCreateCommand{m}
	r["acl token delete"] = &aclTokenDeleteCommand{m}
	r["acl token info"] = &aclTokenInfoCommand{m}
	r["acl token list"] = &aclTokenListCommand{m}
	r["acl token self"] = &aclTokenSelfCommand{m}
	r["acl token update"] = &aclTokenUpdateCommand{m}
}

func (r registry) alloc(m meta) {
	r.group(m, "alloc", "Allocations: what runs where")
	r["alloc checks"] = &allocChecksCommand{m}
	r["alloc exec"] = &allocExecCommand{m}
	r["alloc fs"] = &allocFSCommand{m}
	r["alloc logs"] = &allocLogsCommand{m}
	r["alloc restart"] = &allocRestartCommand{m}
	r["alloc signal"] = &allocSignalCommand{m}
	r["alloc status"] = &allocStatusCommand{m}
	r["alloc stop"] = &allocStopCommand{m}
}

func (r registry) deployment(m meta) {
	r.group(m, "deployment", "Deployments: how a new version of a service takes the old one's place")
	r["deployment fail"] = &deploymentFailCommand{m}
	r["deployment list"] = &deploymentListCommand{m}
	r["deployment pause"] = &deploymentPauseCommand{m}
	r["deployment promote"] = &deploymentPromoteCommand{m}
	r["deployment resume"] = &deploymentResumeCommand{m}
	r["deployment status"] = &deploymentStatusCommand{m}
	r["deployment unblock"] = &deploymentUnblockCommand{m}
}

func (r registry) eval(m meta) {
	r.group(m, "eval", "Evaluations: what the scheduler decided")
	r["eval delete"] = &evalDeleteCommand{m}
	r["eval list"] = &evalListCommand{m}
	r["eval status"] = &evalStatusCommand{m}
}

func (r registry) job(m meta) {
	r.group(m, "job", "Jobs: what is to run")
	r["job action"] = &jobActionCommand{m}
	r["job allocs"] = &jobAllocsCommand{m}
	r["job dispatch"] = &jobDispatchCommand{m}
	r["job deployments"] = &jobDeploymentsCommand{m}
	r["job eval"] = &jobEvalCommand{m}
	r["job history"] = &jobHistoryCommand{m}
	r["job init"] = &jobInitCommand{m}
	r["job inspect"] = &jobInspectCommand{m}
	r.group(m, "job periodic", "Periodic jobs: what is launched at times")
	r["job periodic force"] = &jobPeriodicForceCommand{m}
	r["job plan"] = &jobPlanCommand{m}
	r["job promote"] = &jobPromoteCommand{m}
	r["job restart"] = &jobRestartCommand{m}
	r["job revert"] = &jobRevertCommand{m}
	r["job run"] = &jobRunCommand{m}
	r["job scale"] = &jobScaleCommand{m}
	r["job scaling-events"] = &jobScalingEventsCommand{m}
	r["job start"] = &jobStartCommand{m}
	r["job status"] = &jobStatusCommand{m}
	r["job stop"] = &jobStopCommand{m}
	r.group(m, "job tag", "Names of versions, which are kept")
	r["job tag apply"] = &jobTagApplyCommand{m}
	r["job tag unset"] = &jobTagUnsetCommand{m}
	r["job validate"] = &jobValidateCommand{m}
}

func (r registry) namespace(m meta) {
	r.group(m, "namespace", "Namespaces: jobs, services and variables that are kept apart")
	r["namespace apply"] = &namespaceApplyCommand{m}
	r["namespace delete"] = &namespaceDeleteCommand{m}
	r["namespace inspect"] = &namespaceInspectCommand{m}
	r["namespace list"] = &namespaceListCommand{m}
	r["namespace status"] = &namespaceStatusCommand{m}
}

func (r registry) node(m meta) {
	r.group(m, "node", "This node")
	r["node config"] = &nodeConfigCommand{m}
	r["node drain"] = &nodeDrainCommand{m}
	r["node eligibility"] = &nodeEligibilityCommand{m}
	r.group(m, "node meta", "Metadata: what jobs may ask of a node")
	r["node meta apply"] = &nodeMetaApplyCommand{m}
	r["node meta read"] = &nodeMetaReadCommand{m}
	r.group(m, "node pool", "Node pools: nodes that belong together")
	r["node pool apply"] = &nodePoolApplyCommand{m}
	r["node pool delete"] = &nodePoolDeleteCommand{m}
	r["node pool info"] = &nodePoolInfoCommand{m}
	r["node pool init"] = &nodePoolInitCommand{m}
	r["node pool jobs"] = &nodePoolJobsCommand{m}
	r["node pool list"] = &nodePoolListCommand{m}
	r["node pool nodes"] = &nodePoolNodesCommand{m}
	r["node status"] = &nodeStatusCommand{m}
}

func (r registry) operator(m meta) {
	r.group(m, "operator", "What only a person can decide: what is unclaimed, snapshots, and how the scheduler decides")
	r["operator adopt"] = &operatorAdoptCommand{m}
	r["operator api"] = &operatorAPICommand{m}
	r.group(m, "operator autopilot", "How servers look after each other: there is one")
	r["operator autopilot get-config"] = &autopilotGetConfigCommand{m}
	r["operator autopilot health"] = &autopilotHealthCommand{m}
	r["operator autopilot set-config"] = &autopilotSetConfigCommand{m}
	r["operator client-state"] = &operatorClientStateCommand{m}
	r["operator debug"] = &operatorDebugCommand{m}
	r["operator discard"] = &operatorDiscardCommand{m}
	r["operator end-tasks"] = &operatorEndTasksCommand{m}
	r["operator metrics"] = &operatorMetricsCommand{m}
	r.group(m, "operator raft", "Servers that agree with each other: there is one")
	r["operator raft list-peers"] = &raftListPeersCommand{m}
	r["operator raft remove-peer"] = &raftRemovePeerCommand{m}
	r["operator raft transfer-leadership"] = &raftTransferLeadershipCommand{m}
	r.group(m, "operator root", "Keys")
	r.group(m, "operator root keyring", "The keys that variables are sealed with")
	r["operator root keyring list"] = &rootKeyringListCommand{m}
	r["operator root keyring remove"] = &rootKeyringRemoveCommand{m}
	r["operator root keyring rotate"] = &rootKeyringRotateCommand{m}
	r.group(m, "operator scheduler", "How the scheduler decides")
	r["operator scheduler get-config"] = &operatorSchedulerGetConfigCommand{m}
	r["operator scheduler set-config"] = &operatorSchedulerSetConfigCommand{m}
	r.group(m, "operator snapshot", "Save and restore the state of the control plane")
	r["operator snapshot inspect"] = &operatorSnapshotInspectCommand{m}
	r["operator snapshot restore"] = &operatorSnapshotRestoreCommand{m}
	r["operator snapshot save"] = &operatorSnapshotSaveCommand{m}
}

func (r registry) plugin(m meta) {
	r.group(m, "plugin", "Plugins: drivers in WebAssembly")
	r["plugin annotate"] = &pluginAnnotateCommand{m}
	r["plugin bench"] = &pluginBenchCommand{m}
	r["plugin bundle"] = &pluginBundleCommand{m}
	r["plugin call"] = &pluginCallCommand{m}
	r["plugin compile"] = &pluginCompileCommand{m}
	r["plugin config"] = &pluginConfigCommand{m}
	r["plugin conform"] = &pluginConformCommand{m}
	r["plugin dev"] = &pluginDevCommand{m}
	r["plugin diff"] = &pluginDiffCommand{m}
	r["plugin doctor"] = &pluginDoctorCommand{m}
	r["plugin inspect"] = &pluginInspectCommand{m}
	r["plugin install"] = &pluginInstallCommand{m}
	r["plugin keygen"] = &pluginKeygenCommand{m}
	r["plugin lock"] = &pluginLockCommand{m}
	r["plugin logs"] = &pluginLogsCommand{m}
	r["plugin new"] = &pluginNewCommand{m}
	r["plugin pull"] = &pluginPullCommand{m}
	r["plugin push"] = &pluginPushCommand{m}
	r["plugin record"] = &pluginRecordCommand{m}
	r["plugin replay"] = &pluginReplayCommand{m}
	r["plugin schema"] = &pluginSchemaCommand{m}
	r["plugin sign"] = &pluginSignCommand{m}
	r["plugin status"] = &pluginStatusCommand{m}
	r["plugin test"] = &pluginTestCommand{m}
	r["plugin trace"] = &pluginTraceCommand{m}
	r["plugin verify"] = &pluginVerifyCommand{m}
}

func (r registry) scaling(m meta) {
	r.group(m, "scaling", "Scaling: what an autoscaler reads")
	r.group(m, "scaling policy", "Policies: the scaling blocks of jobs")
	r["scaling policy info"] = &scalingPolicyInfoCommand{m}
	r["scaling policy list"] = &scalingPolicyListCommand{m}
}

func (r registry) system(m meta) {
	r.group(m, "system", "The node as a whole")
	r["system gc"] = &systemGCCommand{m}
	r.group(m, "system reconcile", "Count anew")
	r["system reconcile summaries"] = &systemReconcileCommand{m}
}

func (r registry) server(m meta) {
	r.group(m, "server", "Servers: the node is its own")
	r["server members"] = &serverMembersCommand{m}
}

func (r registry) service(m meta) {
	r.group(m, "service", "Services: what allocations offer others, and where")
	r["service delete"] = &serviceDeleteCommand{m}
	r["service info"] = &serviceInfoCommand{m}
	r["service list"] = &serviceListCommand{m}
}

func (r registry) variables(m meta) {
	r.group(m, "var", "Variables: what jobs are to know, and nobody else")
	r["var get"] = &varGetCommand{m}
	r["var init"] = &varInitCommand{m}
	r["var list"] = &varListCommand{m}
	r["var lock"] = &varLockCommand{m}
	r["var purge"] = &varPurgeCommand{m}
	r["var put"] = &varPutCommand{m}
}

func (r registry) volume(m meta) {
	r.group(m, "volume", "Host volumes: what jobs keep their data in")
	r.group(m, "volume claim", "Claims: which group has which volume again")
	r["volume claim delete"] = &volumeClaimDeleteCommand{m}
	r["volume claim list"] = &volumeClaimListCommand{m}
	r["volume create"] = &volumeCreateCommand{m}
	r["volume delete"] = &volumeDeleteCommand{m}
	r["volume deregister"] = &csiCommand{m, "volume deregister", "Forget a volume"}
	r["volume detach"] = &csiCommand{m, "volume detach", "Take a volume from a node"}
	r["volume init"] = &volumeInitCommand{m}
	r["volume register"] = &volumeRegisterCommand{m}
	r.group(m, "volume snapshot", "Snapshots: there are none of host volumes")
	r["volume snapshot create"] = &csiCommand{m, "volume snapshot create", "Make a snapshot of a volume"}
	r["volume snapshot delete"] = &csiCommand{m, "volume snapshot delete", "Delete a snapshot"}
	r["volume snapshot list"] = &csiCommand{m, "volume snapshot list", "List snapshots"}
	r["volume status"] = &volumeStatusCommand{m}
}

func (r registry) enterprise(m meta) {
	for name, path := range enterprise {
		if group, _, _ := strings.Cut(name, " "); r[group] == nil {
			r.group(m, group, "Is of Nomad Enterprise")
		}
		r[name] = &enterpriseCommand{m, name, path}
	}
}

// refused adds the commands that are refused, and the words before them that nothing else has.
func (r registry) refused(m meta) {
	for name, c := range refusals {
		words := strings.Fields(name)
		for n := 1; n < len(words); n++ {
			if group := strings.Join(words[:n], " "); r[group] == nil {
				r.group(m, group, "Is of what there is not here")
			}
		}
		r[name] = &refusedCommand{m, name, c.does, c.why}
	}
}

// groupCommand is a word that only other commands follow.
type groupCommand struct {
	meta
	name, synopsis string
}

// Help implements [subcommand].
func (g *groupCommand) Help() string {
	return fmt.Sprintf("Usage: wasmnode %s <subcommand> [options] [args]\n\n  %s.", g.name, g.synopsis)
}

// Synopsis implements [subcommand].
func (g *groupCommand) Synopsis() string { return g.synopsis }

// Run implements [subcommand].
func (g *groupCommand) Run(args []string) int {
	if len(args) == 0 {
		return misused
	}
	g.ui.Error(fmt.Sprintf("Error: unknown command %q: wasmnode %s -h lists them", g.name+" "+args[0], g.name))
	return noSuchCommand
}
