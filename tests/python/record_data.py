"""Records how Hugging Face tokenizes texts and conversations, for tests/packing.rs.

    python3 -m venv .venv-hf && .venv-hf/bin/pip install tokenizers transformers jinja2
    .venv-hf/bin/python tests/python/record_data.py

Trains two small tokenizers on the project's own documents (byte-level BPE as in GPT-2 and Llama 3; BPE over
SentencePiece's blanks with byte fallback and a first token, as in Llama 2) unless they exist, and writes
tests/packing/recorded.json: token ids and offsets of texts, and for each template and conversation the text, its ids and
the mask of the assistant's tokens. `transformers` and `tokenizers` are the independent reference; trainc is not run.
"""
import json
import pathlib

import tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests" / "packing"
CORPUS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train([str(p) for p in CORPUS], trainer)
    return tokenizer


def sentence_piece():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=520, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)],
        limit_alphabet=100, show_progress=False, max_token_length=8)
    tokenizer.train([str(p) for p in CORPUS], trainer)
    body = json.loads(tokenizer.to_str())
    body["added_tokens"] = [t for t in body["added_tokens"] if t["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(body))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


SPECIAL = {"bytes": {"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"},
           "pieces": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}}

TEXTS = [
    "A rank that fails still takes part.", "  two blanks,\ttab\n\nand lines \n", "naïve café, 東京 and 🙂🙂",
    "x = [1, 2.5e-4]; don't 'stop'", "<|endoftext|>inside<|im_end|>", "", " ", "</s> and <s>", "a" * 300,
]

TEMPLATES = {
    "eli5": (ROOT / "templates" / "chat" / "eli5.jinja").read_text(),
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
              "+ '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "marked": "{% for message in messages %}\n  {% if message.role == 'assistant' %}\n<|im_start|>assistant\n"
              "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}\n\n  {% else %}\n"
              "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n  {% endif %}\n{% endfor %}\n"
              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "inst": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
            "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
            "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
            "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
            "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
            "{% if loop.index0 == 0 and system_message != false %}"
            "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
            "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
            "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
            "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "tools": "{{- bos_token }}\n{%- set ns = namespace(seen=0, names=[]) %}\n{%- if tools is not none %}\n"
             "    {{- 'Tools: ' + (tools | tojson(indent=2)) + '\\n' }}\n{%- endif %}\n{%- for m in messages %}\n"
             "    {%- if m.role == 'tool' %}{% continue %}{% endif %}\n    {%- set ns.seen = ns.seen + 1 %}\n"
             "    {{- '#' ~ loop.index ~ '/' ~ loop.length ~ (' last' if loop.last else '') ~ ' ' }}\n"
             "    {{- m['role'].upper() + ': ' + (m['content'] | trim) + '\\n' }}\n"
             "    {%- if m.tool_calls is defined and m.tool_calls %}\n        {%- for call in m.tool_calls %}\n"
             "            {{- call.function.name }}({{ call.function.arguments | tojson }})\n"
             "            {%- for key, value in call.function.arguments.items() %} {{ key }}={{ value }};{% endfor %}\n"
             "        {%- endfor %}\n    {%- endif %}\n{%- endfor %}\n{{- ns.seen }} {{ true }} {{ none }} {{ [1, 'a', 2.5, false] }}\n"
             "{%- if add_generation_prompt %}{{ '\\nASSISTANT: ' }}{% endif %}",
}

HELLO = [{"role": "user", "content": "Why is the sky blue?"},
         {"role": "assistant", "content": "Air scatters blue light more than red.\n\nThat's \"Rayleigh\" scattering: 東京."}]
LONG = [{"role": "system", "content": "Be brief."}, *HELLO, {"role": "user", "content": " And at dusk? "},
        {"role": "assistant", "content": "Red: its way is longer 🙂."}]
CALLS = [{"role": "user", "content": "weather"},
         {"role": "assistant", "content": " let me see ", "tool_calls": [
             {"type": "function", "function": {"name": "get", "arguments": {"z": "Zürich's", "n": [1, None, True], "a": 1.5}}}]},
         {"role": "tool", "content": "12"}, {"role": "assistant", "content": "12 degrees"}]
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}, "required": []}}}]
CASES = [("eli5", "bytes", HELLO, None), ("eli5", "pieces", HELLO, None), ("eli5", "bytes", LONG, None),
         ("chatml", "bytes", HELLO, None), ("chatml", "bytes", LONG, None), ("marked", "bytes", LONG, None),
         ("inst", "pieces", HELLO, None), ("inst", "pieces", LONG, None), ("inst", "pieces", LONG[3:] + HELLO[1:], None),
         ("inst", "pieces", HELLO[1:], None), ("tools", "pieces", CALLS, TOOLS), ("tools", "bytes", LONG, None)]


def main():
    OUT.mkdir(exist_ok=True)
    fast = {}
    for name, make in (("bytes", byte_level), ("pieces", sentence_piece)):
        path = OUT / name / "tokenizer.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            make().save(str(path), pretty=False)
            (path.parent / "tokenizer_config.json").write_text(json.dumps(SPECIAL[name], indent=1) + "\n")
        fast[name] = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **SPECIAL[name])
    texts = []
    for name, tokenizer in fast.items():
        for text in TEXTS:
            made = tokenizer(text, return_offsets_mapping=True)
            texts.append({"tokenizer": name, "text": text, "ids": made["input_ids"],
                          "offsets": [list(o) for o in made["offset_mapping"]]})
    chats = []
    for template, name, messages, tools in CASES:
        line = {"messages": messages} | ({"tools": tools} if tools else {})
        case = {"template": template, "tokenizer": name, "line": json.dumps(line, ensure_ascii=False)}
        options = {"chat_template": TEMPLATES[template], "tools": tools}
        try:
            case["text"] = fast[name].apply_chat_template(messages, tokenize=False, **options)
            case["prompt"] = fast[name].apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True, **options)
            made = fast[name].apply_chat_template(messages, tokenize=True, return_dict=True,
                                                  return_assistant_tokens_mask="generation" in TEMPLATES[template].split("add_")[0], **options)
            case["ids"] = made["input_ids"]
            case["mask"] = made.get("assistant_masks")
        except Exception as error:  # raised by the template
            case["error"] = str(error)
        chats.append(case)
    made = {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__, "templates": TEMPLATES,
            "texts": texts, "chats": chats}
    (OUT / "recorded.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    print(len(texts), "texts,", len(chats), "chats,", sum("error" in c for c in chats), "refused:",
          [c["error"] for c in chats if "error" in c])


main()
