{{/* Names and labels (W-1202), and what several templates ask. */}}

{{- define "k8s-runner.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "k8s-runner.fullname" -}}
{{- $long := default (printf "%s-%s" .Release.Name (include "k8s-runner.name" .)) .Values.fullnameOverride -}}
{{- $long | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "k8s-runner.selectorLabels" -}}
app.kubernetes.io/name: {{ include "k8s-runner.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "k8s-runner.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "k8s-runner.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "k8s-runner.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "k8s-runner.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "k8s-runner.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "k8s-runner.workloadNamespace" -}}
{{- default .Release.Namespace .Values.workloadNamespace -}}
{{- end -}}

{{/* The value of a variable as far as the values tell, the last one wins; empty when it comes from elsewhere. */}}
{{- define "k8s-runner.variable" -}}
{{- $found := "" -}}
{{- $name := .name -}}
{{- range concat .root.Values.env .root.Values.extraEnvVars -}}
{{- if eq .name $name -}}
{{- $found = ternary "" (toString .value) (hasKey . "valueFrom") -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* "true" when a variable is in the values. */}}
{{- define "k8s-runner.hasVariable" -}}
{{- $name := .name -}}
{{- range concat .root.Values.env .root.Values.extraEnvVars -}}
{{- if eq .name $name }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* The runner works in KUBE_NAMESPACE; its Role and the policies are made in workloadNamespace. */}}
{{- define "k8s-runner.checkNamespace" -}}
{{- $set := include "k8s-runner.variable" (dict "root" . "name" "KUBE_NAMESPACE") -}}
{{- $wanted := include "k8s-runner.workloadNamespace" . -}}
{{- if and $set (ne $set $wanted) -}}
{{- fail (printf "KUBE_NAMESPACE is %q and workloadNamespace %q: they have to be the same, so set both" $set $wanted) -}}
{{- end -}}
{{- if and .Values.workloadResourceQuota.enabled (not $set) -}}
{{- fail "workloadResourceQuota needs KUBE_NAMESPACE as a literal in env or extraEnvVars" -}}
{{- end -}}
{{- end -}}

{{- define "k8s-runner.leaderElection" -}}
{{- $enabled := .Values.leaderElection.enabled -}}
{{- if kindIs "invalid" $enabled -}}
{{- $most := ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- $enabled = gt (int $most) 1 -}}
{{- end -}}
{{- if $enabled }}true{{ end -}}
{{- end -}}

{{- define "k8s-runner.leaseName" -}}
{{- default (include "k8s-runner.fullname" .) .Values.leaderElection.leaseName -}}
{{- end -}}

{{- define "k8s-runner.metrics" -}}
{{- if or .Values.metrics.enabled .Values.metrics.serviceMonitor.enabled }}true{{ end -}}
{{- end -}}

{{- define "k8s-runner.pluginsConfigMap" -}}
{{- if .Values.plugins.existingConfigMap -}}
{{- .Values.plugins.existingConfigMap -}}
{{- else if .Values.plugins.file -}}
{{- include "k8s-runner.fullname" . }}-plugins
{{- else if .Values.plugins.components -}}
{{- fail "plugins.components are there and no plugins.file that names them" -}}
{{- end -}}
{{- end -}}

{{/* Variables that follow from other values; one that is set by hand is left to that. */}}
{{- define "k8s-runner.ownVariables" -}}
{{- $own := dict "RUNNER_PLUGIN_CACHE" (printf "%s/plugins" .Values.cache.mountPath) "RUNNER_REVISION_DIR" (printf "%s/revision" .Values.cache.mountPath) -}}
{{- if include "k8s-runner.pluginsConfigMap" . -}}
{{- $_ := set $own "RUNNER_PLUGINS" (printf "%s/plugins.yaml" .Values.plugins.mountPath) -}}
{{- end -}}
{{- if include "k8s-runner.leaderElection" . -}}
{{- $_ := set $own "RUNNER_LEASE_NAME" (include "k8s-runner.leaseName" .) -}}
{{- end -}}
{{- if include "k8s-runner.metrics" . -}}
{{- $_ := set $own "RUNNER_METRICS_ADDRESS" (printf ":%d" (int .Values.metrics.port)) -}}
{{- end -}}
{{- if .Values.workloadSecretSweep.enabled -}}
{{- $_ := set $own "WORKLOAD_SECRET_SWEEP_INTERVAL" .Values.workloadSecretSweep.interval -}}
{{- $_ := set $own "WORKLOAD_SECRET_SWEEP_GRACE" .Values.workloadSecretSweep.grace -}}
{{- end -}}
{{- range $name, $value := $own -}}
{{- if not (include "k8s-runner.hasVariable" (dict "root" $ "name" $name)) }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One probe: its own handler, or the default: gRPC health for readiness, where kubelet can ask for it (it speaks no TLS), else the port. */}}
{{- define "k8s-runner.probe" -}}
{{- $probe := omit .probe "enabled" -}}
{{- if not (or $probe.grpc $probe.tcpSocket $probe.httpGet $probe.exec) -}}
{{- if or (ne .name "readinessProbe") (include "k8s-runner.hasVariable" (dict "root" .root "name" "RUNNER_TLS_CERT")) -}}
{{- $probe = set $probe "tcpSocket" (dict "port" "grpc") -}}
{{- else -}}
{{- range .root.Values.containerPorts -}}
{{- if eq .name "grpc" -}}
{{- $probe = set $probe "grpc" (dict "port" (int .containerPort)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}
