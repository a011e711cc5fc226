{{/* Pieces of the egress policy. */}}

{{/* A peer from two plain label maps; what is empty is left out. */}}
{{- define "k8s-runner.peer" -}}
{{- if .namespaceSelector }}
namespaceSelector:
  matchLabels: {{- toYaml .namespaceSelector | nindent 4 }}
{{- end }}
{{- if .podSelector }}
podSelector:
  matchLabels: {{- toYaml .podSelector | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "k8s-runner.dnsPorts" -}}
- protocol: UDP
  port: 53
- protocol: TCP
  port: 53
{{- end -}}

{{/* The rules of one endpoint: `at` names it in errors (W-1231, W-1232). */}}
{{- define "k8s-runner.endpoint" -}}
{{- $selectors := or .endpoint.namespaceSelector .endpoint.podSelector -}}
{{- if not (or .endpoint.cidr .endpoint.backendCIDRs $selectors) -}}
{{- fail (printf "%s.cidr, backendCIDRs, or selectors are required" .at) -}}
{{- end -}}
{{- $port := .endpoint.port -}}
{{- if or .endpoint.cidr $selectors }}
- to:
    {{- with .endpoint.cidr }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
    {{- if $selectors }}
    - {{- include "k8s-runner.peer" .endpoint | trim | nindent 6 }}
    {{- end }}
  {{- include "k8s-runner.tcpPort" $port }}
{{- end }}
{{- range .endpoint.backendCIDRs }}
- to:
    - ipBlock:
        cidr: {{ . }}
  {{- include "k8s-runner.tcpPort" $port }}
{{- end }}
{{- end -}}

{{- define "k8s-runner.tcpPort" -}}
{{- with . }}
  ports:
    - protocol: TCP
      port: {{ . }}
{{- end }}
{{- end -}}
