{{/* Name of the chart. */}}
{{- define "moorage.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* Name of the release's objects; components add a dash and their name, so there is room for that. */}}
{{- define "moorage.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "moorage.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Below, a component is a dict of root (the chart's context) and component (its name in the values). */}}

{{- define "moorage.componentName" -}}
{{- printf "%s-%s" (include "moorage.fullname" .root) .component }}
{{- end }}

{{- define "moorage.selectorLabels" -}}
app.kubernetes.io/name: {{ include "moorage.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object that belongs to no single component. */}}
{{- define "moorage.labels" -}}
helm.sh/chart: {{ include "moorage.chart" . }}
app.kubernetes.io/name: {{ include "moorage.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: moorage
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "moorage.componentLabels" -}}
{{ include "moorage.labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "moorage.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount }}
{{- if $account.create }}
{{- default (include "moorage.componentName" .) $account.name }}
{{- else }}
{{- default "default" $account.name }}
{{- end }}
{{- end }}

{{- define "moorage.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "moorage.priorityClassName" -}}
{{- if .Values.priorityClass.create }}
{{- default (include "moorage.fullname" .) .Values.priorityClass.name }}
{{- else }}
{{- .Values.priorityClassName }}
{{- end }}
{{- end }}

{{/* Whether cert-manager issues the webhook's certificate: only where it was asked for and is there. */}}
{{- define "moorage.certManager" -}}
{{- if and .Values.webhook.certManager.enabled (.Capabilities.APIVersions.Has "cert-manager.io/v1/Certificate") -}}
true
{{- end }}
{{- end }}

{{/* Whether the webhook writes into its registration: not if cert-manager writes the CA bundle. */}}
{{- define "moorage.keepsRegistration" -}}
{{- if and (include "moorage.webhookConfiguration" . | fromYaml).webhookName (not (include "moorage.certManager" .)) -}}
true
{{- end }}
{{- end }}

{{- define "moorage.serviceMonitors" -}}
{{- if and .Values.metrics.serviceMonitor.enabled (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") -}}
true
{{- end }}
{{- end }}

{{- define "moorage.prometheusRules" -}}
{{- if and .Values.metrics.prometheusRule.enabled (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PrometheusRule") -}}
true
{{- end }}
{{- end }}
