"""Asks a server as openai's package and huggingface_hub's InferenceClient do, and prints the answers as JSON."""

import json
import sys

import openai
from huggingface_hub import InferenceClient

url, *texts = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)
embeddings = client.embeddings.create(model="encoder", input=texts)  # the package asks for base64, and decodes it
answers = dict(default=[row.embedding for row in embeddings.data])
answers["float"] = [row.embedding for row in client.embeddings.create(
    model="encoder", input=texts, encoding_format="float").data]
answers["dimensions"] = client.embeddings.create(model="encoder", input=texts[0], dimensions=4).data[0].embedding
answers["tokens"] = embeddings.usage.prompt_tokens
answers["models"] = [model.id for model in client.models.list()]
answers["model"] = client.models.retrieve("ranker").id
for model, name in (("other", "unknown"), ("ranker", "unfit")):
    try:
        client.embeddings.create(model=model, input="a")
    except openai.APIStatusError as error:
        answers[name] = [type(error).__name__, error.code, error.body["message"]]

hub = InferenceClient(f"{url}embed")
answers["feature_extraction"] = hub.feature_extraction(texts[0], normalize=False, truncate=True).tolist()
answers["sentences"] = hub.feature_extraction(texts).tolist()
print(json.dumps(answers))
