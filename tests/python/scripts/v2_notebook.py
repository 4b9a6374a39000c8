#!/usr/bin/env python
# coding: utf-8

# # Fine-tune a model

# In[1]:


get_ipython().system('pip install --quiet "sagemaker<3" datasets')
get_ipython().run_line_magic('matplotlib', 'inline')


# In[2]:


import sagemaker
from sagemaker.huggingface import HuggingFace

role = sagemaker.get_execution_role()
sess = sagemaker.Session()
display(f"region: {sess.boto_region_name}")


# In[3]:


get_ipython().run_cell_magic('time', '', 'huggingface_estimator = HuggingFace(\n    entry_point="run_glue.py",\n    source_dir="src",\n    instance_type="ml.g5.2xlarge",\n    instance_count=1,\n    role=role,\n    transformers_version="4.28",\n    pytorch_version="2.0",\n    py_version="py310",\n    hyperparameters={"epochs": 1, "per_device_train_batch_size": 32},\n)\n')


# In[4]:


huggingface_estimator.fit({"train": f"s3://{sess.default_bucket()}/samples/train"})
