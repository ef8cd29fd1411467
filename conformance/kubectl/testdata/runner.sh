#!/usr/bin/env bash
# Runs one function of Kubernetes' test/cmd against a server of its own, or lists the functions
# that apply to the server's resources:
#
#   runner.sh list FILE       writes the names to FILE, in the order of legacy-script.sh
#   runner.sh run FUNCTION    runs a function; runTests is what legacy-script.sh checks between them
#
# The working directory is a copy of upstream's files, with the programs in _output/bin. The server
# is the kube-apiserver there, started as upstream's test-cmd.sh starts it. This script only chooses
# what runs: the rest is sourced from upstream's files, or cut out of those that run everything.
#
# Environment: ETCD_PORT and SECURE_API_PORT, free ports; TMPDIR, a folder of this run;
# SERVICE_ACCOUNT_KEY, an RSA key; TRACE, a file for the lines that were executed; SERVER_LOG, a
# file for the log of the server; MANAGER, not empty to run a kube-controller-manager, too.

set -o errexit -o nounset -o pipefail

# mktemp creates files below TMPDIR, even if the template names /tmp.
mktemp() {
  local last="${*: -1}"
  if [[ "${last}" == /tmp/* ]]; then
    command mktemp "${@:1:$#-1}" "${TMPDIR}/${last#/tmp/}"
  else
    command mktemp "$@"
  fi
}

# The servers' versions are not those of this kubectl, which upstream's flag would refuse.
export ALLOW_SKEW=yes
export KUBE_JUNIT_REPORT_DIR="${TMPDIR}/junit"

source hack/lib/init.sh
source "${KUBE_ROOT}/hack/lib/test.sh"
source "${KUBE_ROOT}/test/cmd/legacy-script.sh"

# make does nothing: the programs have been built.
make() { :; }

# The functions of test-cmd.sh that start the servers and create a node. The file cannot be sourced: it
# runs everything.
eval "$(sed -n '/^function run_kube_apiserver()/,/^kube::log::status/p' hack/make-rules/test-cmd.sh | sed '$d')"

# prepareTests is the beginning of upstream's runTests: flags, names of fields, first objects.
eval "$(declare -f runTests | sed -e '1s/.*/prepareTests ()/' -e '/cleanup_tests *()/,$d'; echo '}')"

# list_functions writes the names of the functions that runTests would run to the file $1. In a
# subshell, it replaces what runTests does between them, and the function that runs them.
list_functions() (
  set +o errexit +o nounset +o pipefail
  trap - ERR
  record_command() { echo "$1" >&9; }
  kubectl() { :; }
  xargs() { :; }
  sleep() { :; }
  for name in $(declare -F | sed -n 's/^declare -f \(kube::test::.*\)/\1/p'); do
    if [[ "${name}" != kube::test::if_supports_resource ]]; then
      eval "${name}() { :; }"
    fi
  done
  runTests 9>"$1" >/dev/null 2>&1
)

# run_function runs the function $1 as runTests does, and records the lines that are executed.
run_function() {
  local function=$1
  prepareTests
  foundError=""
  exec 8>"${TRACE}"
  BASH_XTRACEFD=8
  PS4='+@${FUNCNAME[*]-}@${BASH_SOURCE[*]##*/}@${BASH_LINENO[*]-}@${LINENO}@'
  set -o xtrace
  record_command "${function}"
  set +o xtrace
  [[ -z "${foundError}" ]]
}

# check_between runs what runTests checks between the functions.
check_between() {
  record_command() { :; }
  exec 8>"${TRACE}"
  BASH_XTRACEFD=8
  PS4='+@${FUNCNAME[*]-}@${BASH_SOURCE[*]##*/}@${BASH_LINENO[*]-}@${LINENO}@'
  set -o xtrace
  runTests
  set +o xtrace
}

export SERVICE_ACCOUNT_LOOKUP=true
SUPPORTED_RESOURCES=("*")
setup
run_kube_apiserver 2>"${SERVER_LOG}"
if [[ -n "${MANAGER:-}" ]]; then
  run_kube_controller_manager 2>"${SERVER_LOG}.manager"
fi
# The names by which the conditions of runTests call resources: plural, singular and short ones.
mapfile -t SUPPORTED_RESOURCES < <(
  for path in /api/v1 $(kubectl get --raw /apis | jq -r '.groups[].preferredVersion.groupVersion | "/apis/" + .'); do
    kubectl get --raw "${path}" | jq -r '.resources[] | select(.name | contains("/") | not) | .name, .singularName, (.shortNames // [])[]'
  done
)
create_node

case "$1" in
  list) list_functions "$2" ;;
  run)
    if [[ "$2" == runTests ]]; then
      check_between
    else
      run_function "$2"
    fi
    ;;
  *)
    echo "runner.sh: got $1, want list or run" >&2
    exit 2
    ;;
esac
