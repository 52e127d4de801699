/** ChatML: every message between <|im_start|> and <|im_end|>; tools are listed in a system message of their own. */
export const CHAT_TEMPLATE = `
{%- if tools %}
  {{- '<|im_start|>system\\nTools:' }}
  {%- for tool in tools %}
    {{- '\\n' + (tool | tojson) }}
  {%- endfor %}
  {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
  {%- if message.role not in ['system', 'developer', 'user', 'assistant', 'tool'] %}
    {{- raise_exception('unknown role: ' + message.role) }}
  {%- endif %}
  {{- '<|im_start|>' + message.role + '\\n' + message.content }}
  {%- for call in message.tool_calls or [] %}
    {{- '\\n<tool_call>' + (call.function | tojson) + '</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
{%- endif %}`.trimStart();
