{{/*
The container's environment from the values: env, then extraEnvVars; of one name the last counts, and only that is rendered.

helm merges lists of variables by name, and goes wrong over a Deployment that has a name twice, as the chart has made it that this one
takes the place of: what is to be changed or single there would be lost, silently. So a name that is twice in the Deployment stays as it is
there, and values that would change it are refused with what to do.
*/}}

{{- define "k8s-runner.variables" -}}
{{- $given := concat .Values.env .Values.extraEnvVars -}}
{{- $doubled := include "k8s-runner.doubled" . | fromJson -}}
{{- range $name, $there := $doubled -}}
{{- if ne $there (include "k8s-runner.definitions" (dict "name" $name "variables" $given)) -}}
{{- fail (printf "the Deployment has the variable %s twice, and helm cannot change such a one: run kubectl -n %s delete deployment %s, and then this again" $name $.Release.Namespace (include "k8s-runner.fullname" $)) -}}
{{- end -}}
{{- end -}}
{{- $kept := list -}}
{{- $seen := dict -}}
{{- range reverse $given -}}
{{- if or (hasKey $doubled .name) (not (hasKey $seen .name)) -}}
{{- $kept = prepend $kept . -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- end -}}

{{/* Of the Deployment as it is: each name that it has twice, with all its definitions. */}}
{{- define "k8s-runner.doubled" -}}
{{- $doubled := dict -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "k8s-runner.fullname" .) -}}
{{- range dig "spec" "template" "spec" "containers" list $live -}}
{{- if eq .name $.Chart.Name -}}
{{- $seen := dict -}}
{{- $variables := default list .env -}}
{{- range $variables -}}
{{- if hasKey $seen .name -}}
{{- $_ := set $doubled .name (include "k8s-runner.definitions" (dict "name" .name "variables" $variables)) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $doubled -}}
{{- end -}}

{{/* All definitions of a name, in a form that the API server's defaults do not change. */}}
{{- define "k8s-runner.definitions" -}}
{{- $name := .name -}}
{{- range .variables -}}
{{- if eq .name $name }}
{{ if dig "valueFrom" "fieldRef" false . }}{{ .valueFrom.fieldRef.fieldPath }}{{ else if .valueFrom }}{{ toJson .valueFrom }}{{ else }}{{ default "" .value | quote }}{{ end }}
{{- end -}}
{{- end -}}
{{- end -}}
